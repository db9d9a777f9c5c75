"""The planted faults of `python -m tests.mutants` are in step with the code."""

import pytest

from tests.architecture.tree import ROOT
from tests.mutants.mutant import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_can_be_planted(mutant: Mutant) -> None:
    source = (ROOT / mutant.file).read_text("utf-8")

    assert source.count(mutant.old) == 1
    if mutant.file.endswith(".py"):
        compile(source.replace(mutant.old, mutant.new), mutant.file, "exec")


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
