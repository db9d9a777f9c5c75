"""The planted faults of `python -m tests.mutants` are in step with the code."""

from contextlib import suppress

from tests.architecture.tree import ROOT
from tests.mutants.mutant import MUTANTS, Mutant


def test_every_fault_can_be_planted() -> None:
    # One test, because a test costs more than it takes to plant a fault.
    assert [mutant.name for mutant in MUTANTS if not can_be_planted(mutant)] == []


def can_be_planted(mutant: Mutant) -> bool:
    source = (ROOT / mutant.file).read_text("utf-8")
    with suppress(SyntaxError):
        if mutant.file.endswith(".py"):
            compile(source.replace(mutant.old, mutant.new), mutant.file, "exec")
        return source.count(mutant.old) == 1
    return False


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
