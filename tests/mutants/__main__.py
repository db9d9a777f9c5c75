"""Plant each fault in a copy of the project and run fast tests on it: `python -m tests.mutants [WORD]`.

The tests nearest to the fault run first: those that its row names and the file that mirrors the module, then
the mirror of its folder, then all fast tests. Exits with 1 if a fault survives. WORD selects the faults
whose names contain it.
"""

import importlib
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import pytest

from tests.mutants.mutant import MUTANTS, Mutant

_ROOT = Path(__file__).parents[2]
_FAST = ("tests/unit", "tests/contracts/test_executor.py", "tests/contracts/test_event_log.py")
_TIMEOUT_S = 600
"""A fault may also make a test hang."""
_OURS = {"app", "runtally", "tests"}
_LIBRARIES = "import sys, app.http.app, tests.conftest; print(*sys.modules)"
_FORK = multiprocessing.get_context("fork")


def import_libraries() -> None:
    """Import what is not ours once: the processes of the tests inherit it, and only ours differs in them."""
    listed = subprocess.run(
        [sys.executable, "-c", _LIBRARIES], cwd=_ROOT, capture_output=True, text=True, check=True
    )
    for module in listed.stdout.split():
        if module.partition(".")[0] not in _OURS:
            importlib.import_module(module)


def copy_into(tree: Path) -> None:
    """Copy what the tests need, with the compiled modules: only the changed one is compiled again."""
    for part in ("app", "runtally", "tests", "migrations", "docs", "deploy"):
        shutil.copytree(_ROOT / part, tree / part, ignore=shutil.ignore_patterns("node_modules"))
    for part in ("pyproject.toml", "alembic.ini", ".env.example"):
        shutil.copy(_ROOT / part, tree)


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


def found_by(mutant: Mutant, tree: Path) -> str | None:
    """The first test that fails with this fault, and why; None if it survives."""
    path = tree / mutant.file
    # A database that was migrated without the fault would hide it.
    own_database = mutant.file.startswith(("migrations/", "app/platform/"))
    path.write_text(path.read_text("utf-8").replace(mutant.old, mutant.new), "utf-8")
    try:
        failures = (_failure(tree, tests, own_database=own_database) for tests in nearest_first(mutant))
        return next(filter(None, failures), None)
    finally:
        shutil.copy2(_ROOT / mutant.file, path)


def _failure(tree: Path, tests: Sequence[str], *, own_database: bool = False) -> str | None:
    """The first of these tests that fails, and why; None if all pass."""
    with (
        tempfile.TemporaryDirectory(prefix="of-a-fault-") as scratch,
        Path(scratch, "printed").open("w+") as printed,
    ):
        process = _FORK.Process(
            target=_run, args=(tree, tests, Path(scratch) if own_database else tree, printed.fileno())
        )
        process.start()
        process.join(_TIMEOUT_S)
        if process.exitcode is None and process.pid is not None:
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return f"one of {', '.join(tests)} does not end"
        if process.exitcode == 0:
            return None
        printed.seek(0)
        output = printed.read()
    failed = re.search(r"^(?:FAILED|ERROR) (.+)", output, re.MULTILINE)
    return failed[1] if failed else output[-4000:]


def _run(tree: Path, tests: Sequence[str], databases: Path, printed: int) -> None:
    """Run pytest on the copy; exits with its code."""
    os.setsid()
    os.dup2(printed, sys.stdout.fileno())
    os.dup2(printed, sys.stderr.fileno())
    os.chdir(tree)
    sys.path[0] = os.environ["PYTHONPATH"] = str(tree)
    # Or pytest cuts off why a test failed.
    os.environ["CI"] = "true"
    # Workers of pytest-xdist share the migrated database, beside the directories of their own.
    os.environ["PYTEST_XDIST_WORKER"] = "gw0"
    for module in [each for each in sys.modules if each.partition(".")[0] in _OURS]:
        del sys.modules[module]
    base = f"--basetemp={databases / 'temporary'}"
    sys.exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--assert=plain", base, *tests]))


def main(word: str) -> int:
    """Plant the faults and print who found each; returns how many survived."""
    survived = 0
    finders = set[str]()
    import_libraries()
    with tempfile.TemporaryDirectory(prefix="mutants-") as tree:
        copy_into(Path(tree))
        for mutant in (each for each in MUTANTS if word in each.name):
            started = time.monotonic()
            found = found_by(mutant, Path(tree))
            survived += found is None
            # All cases of the test: their names may have spaces.
            finders.update(re.findall(r"^tests/[^\s\[]+", found or ""))
            took_s = time.monotonic() - started
            print(f"{mutant.name}\n    {found or 'SURVIVED'} ({took_s:.0f} s)", flush=True)  # noqa: T201 - its purpose
        if finders and (failure := _failure(Path(tree), sorted(finders))):
            raise RuntimeError(f"Fails without a fault, too: {failure}")
    return survived


if __name__ == "__main__":
    sys.exit(1 if main(sys.argv[1] if len(sys.argv) > 1 else "") else 0)
