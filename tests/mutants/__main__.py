"""Plant each fault in a copy of the project and run fast tests on it: `python -m tests.mutants [WORD]`.

The tests nearest to the fault run first: those that its row names and the file that mirrors the module, then
the mirror of its folder, then all fast tests. Exits with 1 if a fault survives. WORD selects the faults
whose names contain it.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from tests.mutants.mutant import MUTANTS, Mutant

_ROOT = Path(__file__).parents[2]
_FAST = ("tests/unit", "tests/contracts/test_executor.py", "tests/contracts/test_event_log.py")
_TIMEOUT_S = 600
"""A fault may also make a test hang."""


def plant(mutant: Mutant, tree: Path) -> None:
    """Write the fault into this copy."""
    path = tree / mutant.file
    path.write_text(path.read_text("utf-8").replace(mutant.old, mutant.new), "utf-8")


def nearest_first(mutant: Mutant) -> Iterator[Sequence[str]]:
    """The tests to run, in steps of growing size."""
    module = PurePosixPath(mutant.file)
    if module.parts[0] == "migrations":
        yield mutant.tests
        return
    # The public package has its tests beside those of the packages of `app`.
    folder = "tests/unit" / (module.parent.relative_to("app") if module.parts[0] == "app" else module.parent)
    mirrors = [str(path.relative_to(_ROOT)) for path in (_ROOT / folder).glob(f"test_{module.stem}*.py")]
    if nearest := [*mutant.tests, *sorted(mirrors)]:
        yield nearest
    if folder != PurePosixPath("tests/unit") and (_ROOT / folder).is_dir():
        yield [str(folder)]
    yield _FAST


def found_by(mutant: Mutant) -> str | None:
    """The first test that fails with this fault, and not without it; None if it survives."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        tree = Path(name)
        for part in ("app", "runtally", "tests", "migrations", "docs", "deploy"):
            # With the compiled modules: only the changed one is compiled again.
            shutil.copytree(_ROOT / part, tree / part, ignore=shutil.ignore_patterns("node_modules"))
        for part in ("pyproject.toml", "alembic.ini", ".env.example"):
            shutil.copy(_ROOT / part, tree)
        plant(mutant, tree)
        found = next(filter(None, (_failure(tree, tests) for tests in nearest_first(mutant))), None)
        shutil.copy(_ROOT / mutant.file, tree / mutant.file)
        # All cases of it: their names may have spaces.
        test = re.match(r"tests/[^\s\[]+", found or "")
        if test is not None and _failure(tree, [test[0]]) is not None:
            raise RuntimeError(f"{test[0]} fails without the fault, too")
        return found


def _failure(tree: Path, tests: Sequence[str]) -> str | None:
    """The first of these tests that fails; None if all pass."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests],
            cwd=tree,
            env={**os.environ, "PYTHONPATH": str(tree)},
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_S,
        )
    except subprocess.TimeoutExpired:
        return f"one of {', '.join(tests)} does not end"
    if done.returncode == 0:
        return None
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed[1] if failed else done.stdout[-2000:] + done.stderr[-2000:]


def main(word: str) -> int:
    """Plant the faults and print who found each; returns how many survived."""
    survived = 0
    for mutant in MUTANTS:
        if word in mutant.name:
            started = time.monotonic()
            test = found_by(mutant)
            survived += test is None
            took_s = time.monotonic() - started
            print(f"{mutant.name}\n    {test or 'SURVIVED'} ({took_s:.0f} s)", flush=True)  # noqa: T201 - its purpose
    return survived


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1] if len(sys.argv) > 1 else "") else 0)
