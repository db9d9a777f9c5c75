"""ToolCatalog: all tools, shipped and the operator's."""

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from stat import S_IWOTH
from types import ModuleType

from app.errors import NotFound, OperatorError
from app.tools import builtin
from app.tools.entry_points import offered
from runtally.tools.tool import Tool


class UnsafeToolDirectory(OperatorError):
    """A tool module that other users of the machine can change; the text names the file or directory."""


class ProjectModules(MetaPathFinder):
    """Finds modules of these names, and what is below them, in the project's directory.

    It is the last finder and knows no other names: nothing in that directory takes the place of a module of
    Python, of this server or of an installed package.
    """

    def __init__(self, directory: Path, modules: Iterable[str]) -> None:
        self.directory = directory
        self._roots = frozenset(name.partition(".")[0] for name in modules)

    def install(self) -> None:
        """Become Python's last finder, in place of an earlier one."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, ProjectModules)]
        sys.meta_path.append(self)

    def find_spec(
        self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See importlib; raises `UnsafeToolDirectory`."""
        if fullname not in self._roots:
            return None
        found = PathFinder.find_spec(fullname, [str(self.directory)])
        if found is not None:
            self._require_safe(self.directory / fullname)
        return found

    def _require_safe(self, module: Path) -> None:
        for path in (self.directory, *_files_of(module)):
            if path.stat().st_mode & S_IWOTH:
                raise UnsafeToolDirectory(
                    f"{path} can be written by every user of this machine, and tools (RUNTALLY_TOOLS) are "
                    f"loaded from there. Remove that permission: chmod o-w {path}"
                )


def _files_of(module: Path) -> Iterator[Path]:
    """The file of a module, or its directory with everything that can be imported from there."""
    file = module.with_suffix(".py")
    if module.is_dir():
        yield module
        yield from (path for path in sorted(module.rglob("*")) if path.is_dir() or path.suffix == ".py")
    elif file.exists():
        yield file


ENTRY_POINTS = "runtally.tools"
"""The entry point group by which installed packages provide tools."""


class ToolCatalogError(OperatorError):
    """The operator's tool modules cannot be used; the text names the module and the reason."""


class ToolNotFound(NotFound):
    """There is no tool with this id."""

    code = "tool_not_found"


class ToolCatalog:
    """Tools by id."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        """Raises `ToolCatalogError` when two different tools share an id."""
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if self._tools.setdefault(tool.id, tool) is not tool:
                raise ToolCatalogError(
                    f"Two tools have the id {tool.id!r}: one is in the module "
                    f"{_module_name(self._tools[tool.id])!r}, one in {_module_name(tool)!r}."
                )

    @classmethod
    def load(cls, modules: Sequence[str], directory: Path | None = None) -> "ToolCatalog":
        """Import the shipped tools, those of installed packages and these modules.

        Every `Tool` at module level is added. A package names its module by an entry point of the
        group `runtally.tools`. Modules that are not installed are looked for in the directory.
        """
        if directory is not None and modules:
            ProjectModules(directory, modules).install()
        names = dict.fromkeys([*_shipped_modules(), *_installed_modules(), *modules])
        return cls(tool for name in names for tool in _tools_of(_imported(name, directory)))

    def get(self, tool_id: str) -> Tool:
        try:
            return self._tools[tool_id]
        except KeyError:
            raise ToolNotFound from None

    def ids(self) -> frozenset[str]:
        return frozenset(self._tools)

    def all(self) -> tuple[Tool, ...]:
        return tuple(self._tools[tool_id] for tool_id in sorted(self._tools))


def _shipped_modules() -> list[str]:
    return [f"{builtin.__name__}.{found.name}" for found in pkgutil.iter_modules(builtin.__path__)]


def _installed_modules() -> list[str]:
    return sorted(point.module for point in offered(ENTRY_POINTS))


def _imported(name: str, directory: Path | None) -> ModuleType:
    try:
        return importlib.import_module(name)
    except UnsafeToolDirectory as error:
        raise ToolCatalogError(str(error)) from error
    except ModuleNotFoundError as error:
        if directory is None or error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _not_importable(name, error) from error
        raise ToolCatalogError(_not_found(name, directory)) from error
    except (Exception, SystemExit) as error:
        raise _not_importable(name, error) from error


def _not_importable(name: str, error: BaseException) -> ToolCatalogError:
    return ToolCatalogError(
        f"The tool module {name!r} (see RUNTALLY_TOOLS) cannot be imported: {type(error).__name__}: {error}"
    )


def _not_found(name: str, directory: Path) -> str:
    """Where a module was looked for."""
    file = directory / f"{name.replace('.', '/')}.py"
    root = name.partition(".")[0]
    taken = getattr(sys.modules.get(root), "__path__", None)
    if taken and str(directory / root) not in taken:
        return (
            f"There is no tool module {name!r} (see RUNTALLY_TOOLS): {root!r} is the installed package "
            f"{next(iter(taken))}, so {file} is not looked at. Choose another name for your directory."
        )
    return (
        f"There is no tool module {name!r} (see RUNTALLY_TOOLS): it is not installed, and there is no "
        f"{file}. Start the server in your project's directory, or install the module."
    )


def _tools_of(module: ModuleType) -> list[Tool]:
    tools = [value for value in vars(module).values() if isinstance(value, Tool)]
    if not tools:
        raise ToolCatalogError(
            f"The tool module {module.__name__!r} (see RUNTALLY_TOOLS) defines no tool: "
            f"{getattr(module, '__file__', None) or 'it is a part of Python'}."
        )
    return tools


def _module_name(tool: Tool) -> str:
    return tool.handler.__module__
