"""Faults planted in the acceptance of runs, and in what runs take over from it."""

from tests.mutants.mutant import Mutant

ACCEPTANCE = (
    Mutant(
        "a place that was claimed in vain stays taken",
        "app/runs/dispatch/places.py",
        "if claim.has_place and not claim.is_used:",
        "if claim.has_place and claim.is_used:",
    ),
    Mutant(
        "a run counts on an old answer of the ledger",
        "app/executors/credit_check.py",
        "plan.unlimited_at + UNLIMITED_FOR_S",
        "plan.unlimited_at + 10 * UNLIMITED_FOR_S",
    ),
)
