"""Plant each fault in a copy of the project and run fast tests on it: `python -m tests.mutants [WORD]`.

Exits with 1 if a fault survives. WORD selects the faults whose names contain it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.mutants.table import MUTANTS, Mutant

_ROOT = Path(__file__).parents[2]
_FAST = ("tests/unit", "tests/contracts/test_executor.py", "tests/contracts/test_event_log.py")


def plant(mutant: Mutant, tree: Path) -> None:
    """Write the fault into this copy."""
    path = tree / mutant.file
    path.write_text(path.read_text("utf-8").replace(mutant.old, mutant.new), "utf-8")


def found_by(mutant: Mutant) -> str | None:
    """The first test that fails with this fault; None if it survives."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        tree = Path(name)
        for part in ("app", "tests", "migrations"):
            ignored = shutil.ignore_patterns("__pycache__", "node_modules")
            shutil.copytree(_ROOT / part, tree / part, ignore=ignored)
        for part in ("pyproject.toml", "alembic.ini"):
            shutil.copy(_ROOT / part, tree)
        plant(mutant, tree)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests, *_FAST],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else done.stdout[-2000:] + done.stderr[-2000:]


def main(word: str) -> int:
    """Plant the faults and print who found each; returns how many survived."""
    survived = 0
    for mutant in MUTANTS:
        if word in mutant.name:
            test = found_by(mutant)
            survived += test is None
            print(f"{mutant.name}\n    {test or 'SURVIVED'}", flush=True)  # noqa: T201 - it is what it is for
    return survived


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1] if len(sys.argv) > 1 else "") else 0)
