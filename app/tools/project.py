"""ProjectModules: the operator's tool modules in the directory that a server is started in."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from stat import S_IWOTH
from types import ModuleType

from app.errors import OperatorError


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
