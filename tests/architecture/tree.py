"""The project's own files, as the tests of its structure see them."""

import ast
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


@cache
def sources(*packages: str, root: Path = ROOT) -> list[Path]:
    """The Python files of these directories; npm packages bring some as well."""
    found = [path for package in packages for path in sorted((root / package).rglob("*.py"))]
    found = [path for path in found if "node_modules" not in path.parts]
    assert found, packages
    return found


@cache
def parsed(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def walked(path: Path) -> list[ast.AST]:
    """All nodes of a file's syntax tree: to walk it takes longer than to parse it."""
    return list(ast.walk(parsed(path)))


def shown(path: Path) -> str:
    """A path as a reader of the project knows it."""
    return path.relative_to(ROOT).as_posix()


@cache
def pyproject() -> dict[str, Any]:
    """The project's metadata and tool settings."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
