"""`python -m tests.flaky` selects the right tests and finds one that fails now and then."""

import subprocess
from pathlib import Path

import psutil

from tests.flaky.__main__ import busy_loops, repeat
from tests.flaky.selection import slowest, touched

SOMETIMES = """
from pathlib import Path

def test_steady():
    pass

class TestClass:
    def test_sometimes(self):
        seen = Path(__file__).with_name("seen")
        had = seen.exists()
        seen.touch()
        assert had
"""


def test_a_test_that_fails_once_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(SOMETIMES)

    found = repeat(["tests"], times=2, workers=0, root=tmp_path)

    assert found == {"tests/test_it.py::TestClass::test_sometimes": 1}


def test_a_run_that_collects_nothing_is_a_failure(tmp_path: Path) -> None:
    assert repeat(["tests/not_there"], times=1, workers=0, root=tmp_path) == {"pytest exited with 4": 1}


def git(root: Path, *arguments: str) -> None:
    author = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run(["git", *author, *arguments], cwd=root, check=True, capture_output=True)  # noqa: S607


def test_a_change_touches_the_tests_that_import_it(tmp_path: Path) -> None:
    files = {
        "app/one.py": "",
        "app/two.py": "",
        "tests/test_one.py": "from app.one import name",
        "tests/test_module.py": "from app import one",
        "tests/test_two.py": "import app.two",
    }
    for name, source in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(source)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "-m", "all")
    (tmp_path / "app" / "one.py").write_text("name = 1")
    (tmp_path / "tests" / "test_new.py").touch()

    assert touched(tmp_path, "HEAD") == ["tests/test_module.py", "tests/test_new.py", "tests/test_one.py"]


def test_the_slowest_are_a_twentieth_of_a_run(tmp_path: Path) -> None:
    cases = [f'<testcase classname="tests.test_it" name="test_{n}[a.b]" time="{n}.5"/>' for n in range(40)]
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>")

    assert slowest(report) == ["tests/test_it.py::test_39[a.b]", "tests/test_it.py::test_38[a.b]"]


def test_busy_loops_end_with_what_they_are_beside() -> None:
    before = set(psutil.Process().children())
    with busy_loops(2):
        loops = set(psutil.Process().children()) - before
        assert len(loops) == 2

    assert [loop for loop in loops if loop.is_running()] == []
