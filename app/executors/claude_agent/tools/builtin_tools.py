"""CliTool: the CLI's own tools for files and commands, and the paths they may use; pure."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from runtally.tools.tool import Effect

WORKSPACE = "/workspace"
"""The agent's workspace as the agent sees it, wherever it is on this machine."""

_PATHS: Mapping[str, tuple[str, ...]] = {
    "Read": ("file_path",),
    "Write": ("file_path",),
    "Edit": ("file_path",),
    "Glob": ("path", "pattern"),
    "Grep": ("path", "glob"),
    "Bash": (),
}
"""By tool: the arguments that are paths."""
_READ_ONLY = {"Read", "Glob", "Grep"}
_ARGUMENTS: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])

_OUTSIDE = "Only what is below /workspace can be read or written."
_FOREGROUND = "Commands run in the foreground here."
_SANDBOXED = "Commands run inside the sandbox here, without exception."


@dataclass(frozen=True, slots=True)
class CliTool:
    """One of the CLI's own tools, as far as approvals need it."""

    id: str

    @property
    def effect(self) -> Effect:
        """What a call may do."""
        return "read_only" if self.read_only else "state_change"

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing."""
        return self.id in _READ_ONLY

    async def arguments(self, raw: object) -> dict[str, Any]:
        """The arguments; raises pydantic's errors. The CLI validates them itself."""
        return _ARGUMENTS.validate_python(raw)


def permission_rules(tools: Sequence[str]) -> list[str]:
    """The CLI's permission rules that allow these tools, which it offers only if they are the agent's.

    Its rules with paths are those of `Read` and `Edit`; they hold for all tools that read or change files.
    """
    return list(dict.fromkeys(_rule(tool) for tool in tools))


def denial_reason(tool: str, args: Mapping[str, Any]) -> str | None:
    """Why a call is denied, for the model; None if it is not. The sandbox holds even if this is wrong."""
    if args.get("run_in_background"):
        # It would outlive the turn that started it.
        return _FOREGROUND
    if args.get("dangerouslyDisableSandbox"):
        return _SANDBOXED
    paths = [args[name] for name in _PATHS[tool] if args.get(name)]
    return _OUTSIDE if any(not _is_inside(path) for path in paths) else None


def visible_args(tool: str, args: Any) -> Any:
    """A call's arguments as clients see them: paths relative to the workspace."""
    paths = _PATHS.get(tool)
    if not paths or not isinstance(args, dict):
        return args
    return {name: _relative(value) if name in paths else value for name, value in args.items()}


def _rule(tool: str) -> str:
    if not _PATHS[tool]:
        return tool
    return f"{'Read' if tool in _READ_ONLY else 'Edit'}(/{WORKSPACE}/**)"


def _is_inside(path: object) -> bool:
    if not isinstance(path, str) or path.startswith("~") or ".." in path.split("/"):
        return False
    absolute = posixpath.normpath(posixpath.join(WORKSPACE, path))
    return absolute == WORKSPACE or absolute.startswith(f"{WORKSPACE}/")


def _relative(path: Any) -> Any:
    if not isinstance(path, str):
        return path
    return "." if path.rstrip("/") == WORKSPACE else path.removeprefix(f"{WORKSPACE}/")
