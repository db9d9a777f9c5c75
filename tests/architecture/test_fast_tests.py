"""Every module of the run core is imported by tests without the CLI: its faults are found in seconds."""

import ast
from pathlib import Path

from tests.architecture.tree import shown, sources, statements

CORE = ("app/runs", "app/executors")
FAST = ("tests/unit", "tests/contracts", "tests/integration")
TESTED_WITH_THEIR_SERVICE = {"records.py", "tables.py", "repository.py", "metrics.py", "__init__.py"}
"""Data, SQL and metrics: tests of the service beside them run every statement on PostgreSQL."""


def imported_by(path: Path) -> set[str]:
    """The modules that a file may import, by their dotted names."""
    nodes = statements(path)
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom) and node.module is not None]
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {f"{node.module}.{alias.name}" for node in froms for alias in node.names}
    return names | {str(node.module) for node in froms}


def test_fast_tests_import_every_module_of_runs_and_executors() -> None:
    imported = {name for path in sources(*FAST) for name in imported_by(path)}
    core = {shown(path) for path in sources(*CORE) if path.name not in TESTED_WITH_THEIR_SERVICE}

    assert {path for path in core if path.removesuffix(".py").replace("/", ".") not in imported} == set()
