"""Lines that we add to a transcript of the CLI, and the tool calls that it ends with; pure.

The CLI chains the lines of a conversation by their ids.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from app.conversations.records import TranscriptEntry
from app.ids import new_uuid

_SHARED = ("isSidechain", "userType", "entrypoint", "cwd", "sessionId", "version", "gitBranch")
"""What the lines of a session have in common."""


def chained_lines(entries: Sequence[TranscriptEntry], run_id: str) -> list[dict[str, Any]]:
    """The lines of a run's main agent that others can follow."""
    return chained([entry.line for entry in entries if entry.run_id == run_id])


def chained(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of these lines that belong to the main agent, and that others can follow."""
    return [line for line in lines if "parentUuid" in line and not line.get("isSidechain")]


def line_after(line: Mapping[str, Any], message: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a message that follows this one."""
    at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "parentUuid": line["uuid"],
        **{name: line[name] for name in _SHARED if name in line},
        "type": "assistant" if message["role"] == "assistant" else "user",
        "uuid": str(new_uuid()),
        "timestamp": at,
        "message": message,
    }


def result_lines(
    lines: Sequence[dict[str, Any]], results: Sequence[Mapping[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The lines of these `tool_result` blocks, after the lines of the run."""
    last = lines[-1]
    for block in results:
        last = line_after(last, {"role": "user", "content": [block]})
        yield last


def open_calls(lines: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The `tool_use` blocks of the last message that have no result, in the order of the model."""
    ids = [message_of(line).get("id") for line in lines if line.get("type") == "assistant"]
    answered = {
        block["tool_use_id"] for line in lines for block in _blocks_of(line) if block["type"] == "tool_result"
    }
    last = [block for line in lines if message_of(line).get("id") in ids[-1:] for block in _blocks_of(line)]
    return [block for block in last if block["type"] == "tool_use" and block["id"] not in answered]


def message_of(line: Mapping[str, Any]) -> Mapping[str, Any]:
    message = line.get("message")
    return message if isinstance(message, dict) else {}


def _blocks_of(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    content = message_of(line).get("content")
    return content if isinstance(content, list) else []
