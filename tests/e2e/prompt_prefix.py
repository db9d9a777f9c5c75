"""What the provider must find again of a request in the next one: everything up to the last cache mark."""

import json
from collections.abc import Iterator
from typing import Any

from app.simulator.script import ApiRequest

_SHOWN = 60


def first_difference(before: ApiRequest, after: ApiRequest) -> str | None:
    """The byte where `after` differs from the marked part of `before`; None if it begins with that."""
    marked, found = _up_to_last_mark(before), _text(_blocks(after))
    if found.startswith(marked):
        return None
    at = next((i for i, (a, b) in enumerate(zip(marked, found, strict=False)) if a != b), len(found))
    shown = [text[max(0, at - _SHOWN) : at + _SHOWN].decode(errors="replace") for text in (marked, found)]
    return f"byte {at} of {len(marked)}: {shown[0]!r} became {shown[1]!r}"


def _up_to_last_mark(request: ApiRequest) -> bytes:
    blocks = list(_blocks(request))
    marks = [index for index, (_, block) in enumerate(blocks) if "cache_control" in block]
    assert marks, "nothing is marked"
    return _text(iter(blocks[: marks[-1] + 1]))


def _blocks(request: ApiRequest) -> Iterator[tuple[str, dict[str, Any]]]:
    """In the provider's order: tools, system, messages."""
    body = request.body
    yield "model", {"model": body["model"], "thinking": body.get("thinking")}
    for tool in body.get("tools", []):
        yield "tool", tool
    for role, content in [("system", body["system"]), *((m["role"], m["content"]) for m in body["messages"])]:
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            yield role, block


def _text(blocks: Iterator[tuple[str, dict[str, Any]]]) -> bytes:
    unmarked = (
        (role, {name: value for name, value in block.items() if name != "cache_control"})
        for role, block in blocks
    )
    return b"\n".join(json.dumps(each).encode() for each in unmarked)
