"""The CLI's own tools for files and commands, and what is theirs to touch: the workspace; pure."""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from app.tools.tool import Effect

WORKSPACE = "/workspace"
"""Where the agent finds its workspace, wherever that is on this machine."""

_PATHS: Mapping[str, tuple[str, ...]] = {
    "Read": ("file_path",),
    "Write": ("file_path",),
    "Edit": ("file_path",),
    "Glob": ("path", "pattern"),
    "Grep": ("path", "glob"),
    "Bash": (),
}
_READING = {"Read", "Glob", "Grep"}
_ARGUMENTS: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])

_OUTSIDE = "Only what is below /workspace can be read or written."
_FOREGROUND = "Commands run in the foreground here."
_SANDBOXED = "Commands run inside the sandbox here, without exception."


@dataclass(frozen=True, slots=True)
class NativeTool:
    """One of them, as far as consent is concerned."""

    id: str

    @property
    def effect(self) -> Effect:
        """What a call may do."""
        return "read_only" if self.read_only else "state_change"

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing."""
        return self.id in _READING

    async def arguments(self, raw: object) -> dict[str, Any]:
        """The arguments; raises pydantic's errors. The CLI checks them itself."""
        return _ARGUMENTS.validate_python(raw)


def rules(tools: Sequence[str]) -> list[str]:
    """What the CLI's own permission rules must allow of these tools."""
    return [f"{tool}(/{WORKSPACE}/**)" if _PATHS[tool] else tool for tool in tools]


def objection(tool: str, args: Mapping[str, Any]) -> str | None:
    """What is against a call, in words for the model. The sandbox holds where this errs."""
    if args.get("run_in_background"):
        # It would outlive the turn that began it.
        return _FOREGROUND
    if args.get("dangerouslyDisableSandbox"):
        return _SANDBOXED
    given = [args[name] for name in _PATHS[tool] if args.get(name)]
    return _OUTSIDE if any(not _is_inside(path) for path in given) else None


def shown_args(tool: str, args: Any) -> Any:
    """A call's arguments as clients see them: paths as they are in the workspace."""
    paths = _PATHS.get(tool)
    if not paths or not isinstance(args, dict):
        return args
    return {name: _relative(value) if name in paths else value for name, value in args.items()}


def _is_inside(path: object) -> bool:
    if not isinstance(path, str) or path.startswith("~") or ".." in path.split("/"):
        return False
    whole = posixpath.normpath(posixpath.join(WORKSPACE, path))
    return whole == WORKSPACE or whole.startswith(f"{WORKSPACE}/")


def _relative(path: Any) -> Any:
    if not isinstance(path, str):
        return path
    return "." if path.rstrip("/") == WORKSPACE else path.removeprefix(f"{WORKSPACE}/")
