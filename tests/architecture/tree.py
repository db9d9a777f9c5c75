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


def mentions(path: Path, *words: str) -> bool:
    """Whether a file has one of these words: most have none, and need not be walked."""
    text = path.read_text(encoding="utf-8")
    return any(word in text for word in words)


@cache
def parsed(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def statements(path: Path) -> list[ast.AST]:
    """All statements of a file, in which definitions and imports are found with a tenth of the work."""
    found: list[ast.AST] = [*parsed(path).body]
    for node in found:  # It grows.
        for part in ("body", "handlers", "orelse", "finalbody", "cases"):
            found += getattr(node, part, ())
    return found


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
