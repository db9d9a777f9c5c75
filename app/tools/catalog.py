"""ToolCatalog: all tools, shipped and the operator's."""

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType

from app.errors import NotFound, OperatorError
from app.tools import builtin
from app.tools.entry_points import offered
from app.tools.project import ProjectModules, UnsafeToolDirectory
from runtally.tools.tool import Tool

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
