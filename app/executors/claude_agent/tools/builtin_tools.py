"""CliTool: the CLI's own tools for files and commands, and the paths they may use; pure."""

import posixpath
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from app.graphs.rules.checking import RuledTool
from app.graphs.spec import AGENT_TOOL
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
_READ_ONLY = {"Read", "Glob", "Grep", AGENT_TOOL}
"""A subagent's own calls are decided about one by one."""

_ARGUMENT_TYPES: Mapping[str, Mapping[str, str]] = {
    "Read": {"file_path": "string", "offset": "integer", "limit": "integer", "pages": "string"},
    "Write": {"file_path": "string", "content": "string"},
    "Edit": {
        "file_path": "string",
        "old_string": "string",
        "new_string": "string",
        "replace_all": "boolean",
    },
    "Glob": {"pattern": "string", "path": "string"},
    "Bash": {"command": "string", "description": "string", "timeout": "integer"},
    AGENT_TOOL: {"subagent_type": "string", "prompt": "string", "description": "string"},
}
"""By tool, for the conditions of rules; those of other tools are not checked before a call."""

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
        return "read_only" if self.read_only else "state_change"

    @property
    def read_only(self) -> bool:
        """Whether it changes nothing."""
        return self.id in _READ_ONLY

    @property
    def input_schema(self) -> dict[str, Any]:
        return {"type": "object"}

    async def arguments(self, raw: object) -> dict[str, Any]:
        """The arguments; raises pydantic's errors. The CLI validates them itself."""
        return _ARGUMENTS.validate_python(raw)


def ruled_tool(tool: str) -> RuledTool:
    types = _ARGUMENT_TYPES.get(tool)
    fields = None if types is None else {name: {"type": kind} for name, kind in types.items()}
    return RuledTool(CliTool(tool).effect, None if fields is None else {"properties": fields})


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
    """A call's arguments as clients and rules see them: paths in one form, relative to the workspace."""
    paths = _PATHS.get(tool)
    if not paths or not isinstance(args, dict):
        return args
    return {name: _relative(value) if name in paths else value for name, value in args.items()}


def _rule(tool: str) -> str:
    if not _PATHS[tool]:
        return tool
    return f"{'Read' if tool in _READ_ONLY else 'Edit'}(/{WORKSPACE}/**)"


def _is_inside(path: object) -> bool:
    # The CLI removes white space around a path.
    if not isinstance(path, str) or path != path.strip() or path.startswith("~") or ".." in path.split("/"):
        return False
    absolute = posixpath.normpath(posixpath.join(WORKSPACE, path))
    return absolute == WORKSPACE or absolute.startswith(f"{WORKSPACE}/")


def _relative(path: Any) -> Any:
    if not _is_inside(path):
        return path
    # The CLI composes characters: a rule must not miss a name that is written otherwise.
    return unicodedata.normalize("NFC", posixpath.relpath(posixpath.join(WORKSPACE, path), WORKSPACE))
