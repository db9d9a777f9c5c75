"""The planted faults of `python -m tests.mutants` are in step with the code."""

import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.architecture.tree import ROOT
from tests.mutants.mutant import MUTANTS, Mutant

UNDEFINED = (sys.executable, "-m", "ruff", "check", "--isolated", "--no-cache", "--quiet", "--select", "F821")


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


def test_no_fault_uses_a_name_that_nothing_defines(tmp_path: Path) -> None:
    """Any test would find it, whatever the fault is about."""
    for number, mutant in enumerate(MUTANTS):
        if mutant.file.endswith(".py"):
            source = (ROOT / mutant.file).read_text("utf-8")
            (tmp_path / f"{number}.py").write_text(source.replace(mutant.old, mutant.new), "utf-8")
    checked = subprocess.run([*UNDEFINED, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (checked.stdout, checked.returncode) == ("", 0)


def test_every_fault_has_a_name_of_its_own() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_no_fault_is_in_a_function_that_a_later_migration_replaces() -> None:
    assert [mutant.name for mutant in MUTANTS if is_replaced(mutant)] == []


def is_replaced(mutant: Mutant) -> bool:
    path = ROOT / mutant.file
    before = path.read_text("utf-8").partition(mutant.old)[0]
    named = re.findall(r"\bFUNCTION (\w+)", before)
    replacing = re.compile(rf"\bOR REPLACE FUNCTION {named[-1]}\b") if named else None
    later = (each for each in path.parent.glob("*.py") if each.name > path.name)
    return replacing is not None and any(replacing.search(each.read_text("utf-8")) for each in later)
