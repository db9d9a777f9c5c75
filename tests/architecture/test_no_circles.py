"""No file imports itself through others; imports of types, and those inside functions, count as well."""

import ast
import re
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.architecture.tree import ROOT, sources, statements

PACKAGES = ("app", "runtally", "benchmarks", "tests", "migrations")
LAYERED = ("app", "runtally", "benchmarks")
"""Packages whose folders do not import each other in a circle either."""

SCRIPTS = ("clients/typescript/src", "app/web", "tests/clients", "tests/frontends")
_SUFFIX = re.compile(r"(\.d)?\.[mc]?[jt]sx?$")
_IMPORTED = re.compile(r"""\b(?:from|import)\s*\(?\s*["'](\.{1,2}/[^"']+)["']""")

PLANTED = {
    "at the top": ("import pack.b", "import pack.sub.c", "import pack.a"),
    "names": ("from pack.b import x", "from pack.sub import c", "from pack import a"),
    "relative": ("from . import b", "from .sub.c import x", "from ..a import x"),
    "types": ("from pack import b", "from .sub import c", "if TYPE_CHECKING:\n    from pack.a import x"),
    "in a function": ("import pack.b", "def f():\n    import pack.sub.c", "from pack.a import x"),
}
"""The contents of `pack/a.py`, `pack/b.py` and `pack/sub/c.py`."""


def python_imports(*packages: str, root: Path = ROOT) -> dict[str, set[str]]:
    """What the files of these packages import of each other, by their paths without a suffix."""
    paths = {
        path.relative_to(root).with_suffix("").as_posix(): path for path in sources(*packages, root=root)
    }
    return {
        file: {_file_of(name, paths) for name in _names(path, file.split("/")[:-1])} & paths.keys() - {file}
        for file, path in paths.items()
    }


def _names(path: Path, package: list[str]) -> set[str]:
    """The modules, and the names of modules, that a file of this package imports."""
    found = set()
    for node in statements(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            module = [*base, *([node.module] if node.module else [])]
            found |= {".".join([*module, alias.name]) for alias in node.names}
    return found


def _file_of(name: str, files: Mapping[str, Path]) -> str:
    """The file of a module, or of the module that defines this name; a path of no file if it is not ours."""
    module = name.replace(".", "/")
    above = module.rpartition("/")[0]
    places = (module, f"{module}/__init__", above, f"{above}/__init__")
    return next((place for place in places if place in files), module)


def script_imports(folder: str, *, root: Path = ROOT) -> dict[str, set[str]]:
    """The relative imports of JavaScript and TypeScript, including those in comments that declare types."""
    found: dict[str, set[str]] = {}
    for path in sorted((root / folder).rglob("*")):
        if _SUFFIX.search(path.name) and "node_modules" not in path.parts:
            imported = _IMPORTED.findall(path.read_text(encoding="utf-8"))
            files = found.setdefault(_script(path, root), set())
            files |= {_script((path.parent / each).resolve(), root) for each in imported}
    assert any(found.values()), folder
    return found


def _script(path: Path, root: Path) -> str:
    return _SUFFIX.sub("", path.relative_to(root).as_posix())


def by_folder(imports: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The same between the folders and files that are side by side in a folder."""
    found: dict[str, set[str]] = {}
    for file, others in imports.items():
        for other in others:
            pairs = list(zip(file.split("/"), other.split("/"), strict=False))
            depth = next(index for index, (one, another) in enumerate(pairs, 1) if one != another)
            one, another = ("/".join(parts[:depth]) for parts in zip(*pairs, strict=True))
            found.setdefault(one, set()).add(another)
    return found


def circles(imports: Mapping[str, set[str]]) -> list[str]:
    """Circles whose removal leaves none, each as a path from a file to itself."""
    left, found = {file: set(others) for file, others in imports.items()}, []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            # The path is in the opposite direction.
            path = error.args[1][::-1]
            left[path[0]].remove(path[1])
            found.append(" -> ".join(path))
        else:
            return found


def test_no_python_file_imports_itself_through_others() -> None:
    found = circles(python_imports(*PACKAGES))

    assert not found, "\n".join(found)


@pytest.mark.parametrize("package", LAYERED)
def test_no_folder_imports_itself_through_others(package: str) -> None:
    found = circles(by_folder(python_imports(package)))

    assert not found, "\n".join(found)


@pytest.mark.parametrize("folder", SCRIPTS)
def test_no_script_imports_itself_through_others(folder: str) -> None:
    found = circles(script_imports(folder))

    assert not found, "\n".join(found)


@pytest.mark.parametrize("kind", PLANTED)
def test_a_planted_circle_is_found(tmp_path: Path, kind: str) -> None:
    (tmp_path / "pack/sub").mkdir(parents=True)
    files = ("pack/a", "pack/b", "pack/sub/c")
    for file, text in zip(files, PLANTED[kind], strict=True):
        (tmp_path / f"{file}.py").write_text(text)
    for folder in ("pack", "pack/sub"):
        (tmp_path / folder / "__init__.py").touch()

    imports = python_imports("pack", root=tmp_path)

    assert circles(imports) == ["pack/a -> pack/b -> pack/sub/c -> pack/a"]
    assert circles(by_folder(imports)) == ["pack/a -> pack/b -> pack/sub -> pack/a"]


def test_a_planted_circle_of_folders_is_found(tmp_path: Path) -> None:
    for file, text in {"one/a": "import pack.two.a", "one/b": "", "two/a": "import pack.one.b"}.items():
        (tmp_path / "pack" / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "pack" / f"{file}.py").write_text(text)

    imports = python_imports("pack", root=tmp_path)

    assert circles(imports) == []
    assert circles(by_folder(imports)) == ["pack/one -> pack/two -> pack/one"]


def test_a_planted_circle_of_scripts_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.ts").write_text('import {\n  B,\n} from "./b.js";')
    (tmp_path / "b.ts").write_text('export type * from "./c.js";')
    (tmp_path / "c.js").write_text('/** @import { A } from "./d.js" */')
    (tmp_path / "d.js").write_text('const a = await import("./a.js");')

    assert circles(script_imports("", root=tmp_path)) == ["a -> b -> c -> d -> a"]
