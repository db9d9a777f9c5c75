"""Faults planted in the acceptance of runs, and in what runs take over from it."""

from tests.mutants.mutant import Mutant

ACCEPTANCE = (
    Mutant(
        "a place that was claimed in vain stays taken",
        "app/runs/dispatch/places.py",
        "if claim.has_place and claim.used_by is None:",
        "if claim.has_place and claim.used_by is not None:",
    ),
    Mutant(
        "a run counts on an old answer of the ledger",
        "app/executors/credit_check.py",
        "unlimited_at + UNLIMITED_FOR_S",
        "unlimited_at + 10 * UNLIMITED_FOR_S",
    ),
)
