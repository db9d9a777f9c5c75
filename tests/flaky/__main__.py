"""Repeat tests beside busy loops: `python -m tests.flaky [TEST ...]`.

Without TEST: the tests that the change since `--base` touches, and the slowest 5 % of the last `make test`.
Prints how often each test failed; exits with 1 if one did.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.flaky.selection import failed, slowest, touched

ROOT = Path(__file__).parents[2]
LAST_RUN = ROOT / ".pytest_cache" / "test.xml"
"""What `make test` writes."""
WORKERS = 4
"""As many processes of pytest as in `make test`."""


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes that compute without end."""
    with ExitStack() as stack:
        for _ in range(count):
            loop = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(loop.kill)
        yield


def repeat(tests: Sequence[str], *, times: int, workers: int = WORKERS, root: Path = ROOT) -> Counter[str]:
    """How often each of these tests failed."""
    found: Counter[str] = Counter()
    for number in range(1, times + 1):
        failures, last_line = _run(tests, root, workers=workers)
        found.update(failures)
        print("\n    ".join([f"{number} of {times}: {last_line}", *failures]), flush=True)  # noqa: T201
    return found


def _run(tests: Sequence[str], root: Path, *, workers: int) -> tuple[list[str], str]:
    """The tests that failed in one run, and the last line that pytest printed."""
    with tempfile.TemporaryDirectory(prefix="flaky-") as directory:
        report = Path(directory) / "report.xml"
        options = [f"-n{workers}", "--dist=loadfile", "-p", "no:cacheprovider", f"--junitxml={report}"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *options, *tests],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        last_line = (done.stdout or done.stderr).strip().rpartition("\n")[2]
        if done.returncode > 1:
            return [f"pytest exited with {done.returncode}"], last_line
        return failed(report), last_line


def main(arguments: Sequence[str]) -> int:
    """Repeat what was asked for; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.flaky", description=__doc__)
    parser.add_argument("tests", nargs="*", metavar="TEST", help="files, folders or ids of tests")
    parser.add_argument("--base", default="HEAD", help="the revision that the change began with (HEAD)")
    parser.add_argument("--times", type=int, default=5, help="how often (5)")
    parser.add_argument("--loops", type=int, default=4, help="busy loops beside the tests (4)")
    parser.add_argument("--last-run", type=Path, default=LAST_RUN, help="a JUnit report with durations")
    asked = parser.parse_args(arguments)
    slow = slowest(asked.last_run) if asked.last_run.exists() else []
    tests = asked.tests or [*touched(ROOT, asked.base), *slow]
    if not tests:
        parser.error("nothing has changed, and there is no report of a last run: name tests")
    with busy_loops(asked.loops):
        found = repeat(tests, times=asked.times)
    for test, count in found.most_common():
        print(f"failed {count} of {asked.times} times: {test}")  # noqa: T201
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
