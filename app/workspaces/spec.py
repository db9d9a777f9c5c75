"""WorkspaceSpec: the workspace settings of a graph, and the check of host paths."""

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from app.platform.serialization.strict_yaml import StrictModel
from app.requests.file_paths import FilePath

_MIB = 1024 * 1024
_DAY_S = 86_400
_GIB = 1024 * _MIB
_MAX_BYTES = 256 * _MIB
"""A workspace is in memory while its run executes."""

_CLI_BYTES = _MIB
"""Room for files that the CLI itself creates in a workspace."""


class HostPathRefused(Exception):
    """The host path does not exist or is outside the directories the operator allows."""


class Mount(StrictModel):
    """Files of this machine that are copied into every workspace of a graph."""

    host_path: Path
    mount_path: FilePath | None = None
    """The path in the workspace; by default the name on the host."""
    include_glob: tuple[str, ...] = ()
    """Copy only files that match one of these patterns; default: all."""
    exclude_glob: tuple[str, ...] = ()
    max_bytes: Annotated[int, Field(ge=0, le=_MAX_BYTES, strict=True)] | None = None
    follow_symlinks: Annotated[bool, Field(strict=True)] = False

    @field_validator("host_path")
    @classmethod
    def _is_absolute(cls, path: Path) -> Path:
        if not path.is_absolute():
            raise ValueError("must be absolute")
        return path

    @property
    def target(self) -> str:
        """The path in the workspace."""
        return self.mount_path or self.host_path.name

    def includes(self, path: str) -> bool:
        """Whether to copy a file, given its path below `host_path`."""
        included = not self.include_glob or any(matches(path, glob) for glob in self.include_glob)
        return included and not any(matches(path, glob) for glob in self.exclude_glob)


class WorkspaceSpec(StrictModel):
    """The initial files of a workspace, the retention of its files, and the limits of its run."""

    mounts: tuple[Mount, ...] = ()
    max_bytes: Annotated[int, Field(ge=0, le=_MAX_BYTES, strict=True)] = 64 * _MIB
    """Mounts and uploads together; the agent may write as much again. Of what is kept, the same."""
    max_files: Annotated[int, Field(ge=1, le=20_000, strict=True)] = 2_000
    keep: Literal["run", "conversation", "end_user"] = "run"
    """Where the next run begins with the files that one has left: nowhere, in its conversation, or with the
    same end user and graph."""
    keep_s: Annotated[int, Field(ge=60, le=366 * _DAY_S, strict=True)] = _DAY_S
    max_temporary_bytes: Annotated[int, Field(ge=_MIB, le=_GIB, strict=True)] = 64 * _MIB
    """Limit of each writable directory besides the workspace."""
    max_memory_bytes: Annotated[int, Field(ge=512 * _MIB, le=64 * _GIB, strict=True)] = _GIB
    """Per command, and for all commands together."""
    max_processes: Annotated[int, Field(ge=16, le=4096, strict=True)] = 128
    """Processes and threads of all commands together."""
    max_cpu_s: Annotated[int, Field(ge=1, le=_DAY_S, strict=True)] = 600
    """Processor time in seconds, per process and for all commands together."""
    max_network_bytes: Annotated[int, Field(ge=_MIB, le=1024 * _GIB, strict=True)] = _GIB
    """What all commands of a run together may send and receive."""

    @property
    def size(self) -> int:
        """The capacity of a workspace: the initial files, what was kept before, and as much again."""
        return (2 if self.keep == "run" else 3) * self.max_bytes + _CLI_BYTES

    @field_validator("mounts")
    @classmethod
    def _each_in_its_place(cls, mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
        for mount in mounts:
            if not mount.target:
                raise ValueError("the root of the file system needs a mount_path")
        if len({mount.target for mount in mounts}) < len(mounts):
            raise ValueError("two mounts have the same mount_path")
        return mounts


def resolve_host_path(path: Path, roots: Sequence[Path]) -> Path:
    """Resolve a host path; raises `HostPathRefused` if it is outside all roots."""
    try:
        real = path.resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise HostPathRefused("does not exist") from error
    if not is_within(real, roots):
        raise HostPathRefused("is not inside RUNTALLY_ALLOWED_HOST_ROOTS")
    return real


def is_within(real: Path, roots: Sequence[Path]) -> bool:
    """Whether a path without symbolic links is one of the roots or below one."""
    return any(real.is_relative_to(root.resolve()) for root in roots)


def matches(path: str, glob: str) -> bool:
    """Whether a relative path matches; a pattern without a slash is compared with the file name only."""
    name = path.rpartition("/")[2]
    return _pattern(glob).fullmatch(path if "/" in glob else name) is not None


@cache
def _pattern(glob: str) -> re.Pattern[str]:
    """`**` matches any number of directories, `*` and `?` match within one name."""
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", glob)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return re.compile("".join(known.get(part, re.escape(part)) for part in parts), re.DOTALL)
