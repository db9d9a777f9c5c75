"""Prompts, answers, arguments and results in the form of the GenAI conventions, of bounded size; pure."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from app.platform.telemetry.attributes import clean

MAX_CHARS = 32 * 1024
"""How long one attribute may be; of longer ones the end of each text is left out."""

MAX_BODY_BYTES = 512 * 1024
"""Longer requests are not captured, and of longer answers the beginning: reading them would delay others."""

_MAX_PARTS = 64
"""Of one message."""

_MAX_PART_CHARS = 4096
_CUT = "[cut]"
_NOT_SHOWN = "[see the span of the tool]"


@dataclass(slots=True)
class ReceivedBody:
    """The bytes of an answer, as far as they are kept."""

    _body: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        """Keep more, up to the limit."""
        self._body += chunk[: MAX_BODY_BYTES - len(self._body)]

    def text(self) -> str:
        return self._body.decode("utf-8", "replace")


def bounded_json(value: object) -> str:
    """The value as JSON; long texts in it are cut, or else all of it."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_CHARS else json.dumps(f"{text[: MAX_CHARS // 2]}{_CUT}")


def message(role: str, text: str, **fields: str) -> str:
    """A list with one message of text."""
    return bounded_json([{"role": role, "parts": [_text(text, MAX_CHARS // 2)], **fields}])


def input_messages(body: bytes) -> str | None:
    """The last messages of a request to the Messages API, as many as fit.

    Results of tools are left out: they contain more than clients may see of them.
    """
    request = _parsed(body) if len(body) <= MAX_BODY_BYTES else None
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        return None
    kept: list[str] = []
    room = MAX_CHARS
    for each in reversed(request["messages"]):
        if not isinstance(each, dict):
            continue
        parts = list(islice(_parts(each.get("content")), _MAX_PARTS))
        text = bounded_json({"role": clean(str(each.get("role"))), "parts": parts})
        room -= len(text)
        if room < 0 and kept:
            break
        kept.append(text)
    return f"[{', '.join(reversed(kept))}]"


def output_messages(answer: str) -> str | None:
    """The message of an answer of the Messages API, streamed or not; without thinking."""
    parts: dict[int, dict[str, Any]] = {}
    reason = ""
    for event in _events(answer):
        match event:
            case {"type": "message", "content": list(content)}:
                parts = dict(enumerate(_parts(content)))
                reason = str(event.get("stop_reason") or "")
            case {"type": "content_block_start", "index": int(index), "content_block": dict(block)}:
                parts[index] = next(_parts([block]), {})
            case {"type": "content_block_delta", "index": int(index), "delta": dict(delta)}:
                _extend(parts.get(index), delta)
            case {"type": "message_delta", "delta": {"stop_reason": str(reason)}}:
                pass
            case _:
                pass
    found = [_finished(part) for part in parts.values() if part]
    if not found:
        return None
    return bounded_json([{"role": "assistant", "parts": found, "finish_reason": reason}])


def _events(answer: str) -> Iterator[Any]:
    if answer.lstrip().startswith("{"):
        yield _parsed(answer.encode())
        return
    for line in answer.splitlines():
        if line.startswith("data:"):
            yield _parsed(line.removeprefix("data:").encode())


def _parts(content: Any) -> Iterator[dict[str, Any]]:
    if isinstance(content, str):
        yield _text(content)
        return
    for block in content if isinstance(content, list) else ():
        match block:
            case {"type": "text", "text": str(text)}:
                yield _text(text)
            case {"type": "tool_use", "id": identifier, "name": name}:
                arguments = bounded_json(block.get("input"))[:_MAX_PART_CHARS]
                yield {"type": "tool_call", "id": str(identifier), "name": str(name), "arguments": arguments}
            case {"type": "tool_result", "tool_use_id": identifier}:
                yield {"type": "tool_call_response", "id": str(identifier), "response": _NOT_SHOWN}
            case {"type": "image" | "document" as kind}:
                yield {"type": str(kind)}
            case _:
                pass


def _extend(part: dict[str, Any] | None, delta: dict[str, Any]) -> None:
    match delta:
        case {"type": "text_delta", "text": str(text)} if part is not None and "content" in part:
            # Not beyond the limit: otherwise each piece would copy all of it.
            if len(part["content"]) < MAX_CHARS // 2:
                part["content"] += text[: MAX_CHARS // 2]
        case {"type": "input_json_delta", "partial_json": str(text)} if part and "arguments" in part:
            part["received"] = (part.get("received", "") + text)[:_MAX_PART_CHARS]
        case _:
            pass


def _finished(part: dict[str, Any]) -> dict[str, Any]:
    received = part.pop("received", None)
    return part if received is None else {**part, "arguments": received}


def _text(text: str, most: int = _MAX_PART_CHARS) -> dict[str, Any]:
    return {"type": "text", "content": text if len(text) <= most else f"{text[:most]}{_CUT}"}


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None
