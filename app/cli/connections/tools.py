"""Configurations of other people's tools that lead them to this server, and the files that have them."""

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

from dotenv import set_key

from app.errors import OperatorError
from app.platform.replaced_files import replacing

_NAME: Final = "runtally"


class ToolName(StrEnum):
    """The tools whose configuration is known."""

    CLAUDE_CODE = "claude-code"
    OPEN_WEBUI = "open-webui"
    CURSOR = "cursor"
    CLAUDE_DESKTOP = "claude-desktop"
    N8N = "n8n"


class NotMerged(OperatorError):
    """A file cannot be written, or is not what its tool reads; nothing was changed."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program that can use this server."""

    path: Callable[[Path, str], Path]
    """Its file, by the home directory and the name of the platform."""
    scopes: tuple[str, ...]
    settings: Callable[[str, str], Any]
    """By the URL of the server and the key: JSON, or variables."""
    next_step: str
    is_environment: bool = False
    """Whether the file has variables."""

    @property
    def file(self) -> Path:
        """Where it looks on this machine, for this user."""
        return self.path(Path.home(), sys.platform)

    def shown(self, settings: Any) -> str:
        if self.is_environment:
            return "\n".join(f"{name}={value}" for name, value in settings.items())
        return json.dumps(settings, indent=2)


def _of_claude_code(url: str, key: str) -> Any:
    return {"env": {"ANTHROPIC_BASE_URL": f"{url}/anthropic", "ANTHROPIC_AUTH_TOKEN": key}}


def telemetry_of_claude_code(url: str, key: str) -> Mapping[str, str]:
    """The variables with which Claude Code sends its metrics and events to this server."""
    return {
        "CLAUDE_CODE_ENABLE_TELEMETRY": "1",
        "OTEL_METRICS_EXPORTER": "otlp",
        "OTEL_LOGS_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"{url}/anthropic",
        # Not a bearer: it sends `%20` as it is.
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-api-key={key}",
    }


def _of_open_webui(url: str, key: str) -> Any:
    return {"OPENAI_API_BASE_URL": f"{url}/openai/v1", "OPENAI_API_KEY": key}


def _of_cursor(url: str, key: str) -> Any:
    server = {"url": f"{url}/mcp", "headers": {"Authorization": f"Bearer {key}"}}
    return {"mcpServers": {_NAME: server}}


def _of_claude_desktop(url: str, key: str) -> Any:
    # Its file knows commands only. A space in an argument is lost on some platforms.
    unsafe = ["--allow-http"] if url.startswith("http://") else []
    arguments = ["-y", "mcp-remote", f"{url}/mcp", *unsafe, "--header", "Authorization:${AUTHORIZATION}"]
    server = {"command": "npx", "args": arguments, "env": {"AUTHORIZATION": f"Bearer {key}"}}
    return {"mcpServers": {_NAME: server}}


def _of_n8n(url: str, key: str) -> Any:
    credential = {"id": _NAME, "name": "Runtally", "type": "openAiApi"}
    return [{**credential, "data": {"apiKey": key, "url": f"{url}/openai/v1"}}]


def _claude_desktop_file(home: Path, platform: str) -> Path:
    folder = {"darwin": "Library/Application Support", "win32": "AppData/Roaming"}.get(platform, ".config")
    return home / folder / "Claude" / "claude_desktop_config.json"


_CHAT: Final = ("runs:write", "runs:read")
TOOLS: Final[Mapping[ToolName, Tool]] = {
    ToolName.CLAUDE_CODE: Tool(
        lambda home, _: home / ".claude" / "settings.json",
        ("external:write",),
        _of_claude_code,
        "Start Claude Code again: its calls of the model go through this server.",
    ),
    ToolName.OPEN_WEBUI: Tool(
        lambda *_: Path(".env"),
        _CHAT,
        _of_open_webui,
        "Start a new Open WebUI with these variables: each graph is a model. One that was started before "
        "ignores them: add URL and key under Admin Settings, Connections.",
        is_environment=True,
    ),
    ToolName.CURSOR: Tool(
        lambda home, _: home / ".cursor" / "mcp.json",
        _CHAT,
        _of_cursor,
        "Start Cursor again: each graph is a tool.",
    ),
    ToolName.CLAUDE_DESKTOP: Tool(
        _claude_desktop_file,
        _CHAT,
        _of_claude_desktop,
        "Start Claude Desktop again: each graph is a tool. It needs Node.",
    ),
    ToolName.N8N: Tool(
        lambda *_: Path("runtally-credentials.json"),
        _CHAT,
        _of_n8n,
        "Import the file with `n8n import:credentials --input=FILE`: each graph is a model of OpenAI nodes.",
    ),
}


@dataclass(frozen=True, slots=True)
class ToolFile:
    """A file to which settings can be added: it was read before a key is made for it."""

    path: Path
    tool: Tool
    present: Any

    @classmethod
    def open(cls, path: Path, tool: Tool) -> Self:
        """Read the file, if there is one, and make its directory; raises `NotMerged`."""
        kind = type(tool.settings("", ""))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            text = path.read_text("utf-8") if path.exists() else ""
            present = kind() if tool.is_environment or not text.strip() else json.loads(text)
        except OSError as error:
            raise NotMerged(f"{path} cannot be read or written: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            raise NotMerged(f"{path} is not JSON: correct it, or leave out --write.") from error
        if not isinstance(present, kind):
            raise NotMerged(f"{path} is not in the form of this tool: correct it, or leave out --write.")
        return cls(path, tool, present)

    def add(self, settings: Any) -> None:
        """Add settings, which replace those of before; all else stays. Raises `NotMerged`."""
        try:
            # It has a key.
            with replacing(self.path, mode=0o600) as new:
                if self.tool.is_environment:
                    new.write_bytes(self.path.read_bytes() if self.path.exists() else b"")
                    for name, value in settings.items():
                        set_key(new, name, value, quote_mode="never")
                else:
                    new.write_text(json.dumps(_merged(self.present, settings), indent=2) + "\n", "utf-8")
        except OSError as error:
            raise NotMerged(f"{self.path} cannot be written: {error.strerror}.") from error


def _merged(present: Any, added: Any) -> Any:
    match present, added:
        case dict(), dict():
            return {**present, **{name: _merged(present.get(name), value) for name, value in added.items()}}
        case list(), [{"id": own}]:
            others = (each for each in present if not (isinstance(each, dict) and each.get("id") == own))
            return [*others, *added]
        case _:
            return added
