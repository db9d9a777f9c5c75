"""Which tests are repeated: those that a change touches, and the slowest of the last run."""

import ast
import subprocess
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from xml.etree import ElementTree as ET

SLOWEST = 0.05


def touched(root: Path, base: str) -> list[str]:
    """The files of tests that changed since this revision, or that import a module which did."""
    changed = _changed(root, base)
    modules = {_module(path) for path in changed if path.suffix == ".py"}
    tests = [path.relative_to(root) for path in sorted((root / "tests").rglob("test_*.py"))]
    return [
        path.as_posix()
        for path in tests
        if "node_modules" not in path.parts and (path in changed or modules & _imported(root / path))
    ]


def slowest(report: Path) -> list[str]:
    """The ids of the slowest tests in this JUnit report, 5 % of them."""
    cases = [(float(case.get("time", 0)), _node_id(case)) for case in _cases(report)]
    return [test for _, test in sorted(cases, reverse=True)[: round(len(cases) * SLOWEST)]]


def failed(report: Path) -> list[str]:
    """The ids of the tests that failed in this JUnit report."""
    return [_node_id(case) for case in _cases(report) if {"failure", "error"} & {child.tag for child in case}]


def _cases(report: Path) -> Iterable[ET.Element]:
    return ET.parse(report).iter("testcase")  # noqa: S314 - pytest wrote it


def _node_id(case: ET.Element) -> str:
    # The file of a test is in `classname`, dotted; names of its classes follow.
    dotted = case.get("classname", "").split(".")
    name = case.get("name", "")
    classes = [part for part in dotted if part[:1].isupper()]
    file = "/".join(dotted[: len(dotted) - len(classes)]) + ".py"
    return "::".join([file, *classes, name])


def _changed(root: Path, base: str) -> set[Path]:
    """The files that differ from this revision, those that Git does not know yet included."""
    commands = (
        ["git", "diff", "--name-only", "--diff-filter=d", base],
        ["git", "ls-files", "--others", "--exclude-standard"],
    )
    printed = [
        subprocess.run(each, cwd=root, capture_output=True, text=True, check=True).stdout for each in commands
    ]
    return {Path(line) for lines in printed for line in lines.splitlines()}


def _module(path: Path) -> str:
    return ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path) -> set[str]:
    """The modules that a file imports, and names that may be modules."""
    nodes = list(ast.walk(ast.parse(path.read_text("utf-8"))))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return modules
