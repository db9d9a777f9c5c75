"""A reply in the format of the Messages API; pure."""

import json
from collections.abc import Iterator
from typing import Any

from app.simulator import script

TOKENS_PER_MESSAGE = 7

JSON_PIECE = 12
"""Tool input is streamed in pieces of this many characters, or longer ones if there were too many."""

MOST_PIECES = 5000


def events(reply: script.Reply, *, model: str) -> list[dict[str, Any]]:
    """The events of a streamed answer, in order."""
    started = {**message(reply, model=model), "content": [], "stop_reason": None, "usage": reply.usage}
    found: list[dict[str, Any]] = [{"type": "message_start", "message": started}, {"type": "ping"}]
    for index, block in enumerate(reply.blocks):
        found.extend(_block_events(index, block, reply))
    delta = {"stop_reason": stop_reason(reply), "stop_sequence": None}
    found.append({"type": "message_delta", "delta": delta, "usage": reply.final_usage})
    found.append({"type": "message_stop"})
    return found


def message(reply: script.Reply, *, model: str) -> dict[str, Any]:
    content = [_content(index, block, reply) for index, block in enumerate(reply.blocks)]
    return {
        "id": reply.message_id,
        "type": "message",
        "role": "assistant",
        "model": reply.model or model,
        "content": content,
        "stop_reason": stop_reason(reply),
        "stop_sequence": None,
        "usage": {**reply.usage, **reply.final_usage},
    }


def error(failure: script.HttpError) -> dict[str, Any]:
    details = {} if failure.details is None else {"details": failure.details}
    return {"type": "error", "error": {"type": failure.type, "message": failure.message, **details}}


def stop_reason(reply: script.Reply) -> str:
    if reply.stop_reason is not None:
        return reply.stop_reason
    match reply.blocks[-1] if reply.blocks else None:
        case script.ToolUse():
            return "tool_use"
        case script.Compaction():
            return "compaction"
        case _:
            return "end_turn"


def is_request(request: Any) -> bool:
    """Whether a body has messages as the API takes them, as far as scripts read them."""
    messages = request.get("messages") if isinstance(request, dict) else None
    return isinstance(messages, list) and bool(messages) and all(map(_is_message, messages))


def _is_message(message: Any) -> bool:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        return False
    content = message.get("content")
    if isinstance(content, list):
        return all(isinstance(block, dict) and isinstance(block.get("type"), str) for block in content)
    return isinstance(content, str)


def count_tokens(request: dict[str, Any]) -> int:
    """The number of tokens of a request: one per word, and a few per message."""
    texts = [script.text_of(message["content"]) for message in request["messages"]]
    return sum(TOKENS_PER_MESSAGE + len(text.split()) for text in texts)


def output_of(delta: dict[str, Any]) -> str:
    """What a delta adds to the model's output."""
    return "".join(delta.get(kind, "") for kind in ("text", "thinking", "partial_json"))


def sse(event: dict[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _block_events(index: int, block: script.Block, reply: script.Reply) -> Iterator[dict[str, Any]]:
    empty = _content(index, _emptied(block), reply)
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    for delta in _deltas(block):
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _emptied(block: script.Block) -> script.Block:
    match block:
        case script.Text():
            return script.Text("")
        case script.Thinking():
            return script.Thinking("", signature="")
        case script.ToolUse():
            return script.ToolUse(block.name, {}, block.id)
        case script.Compaction():
            return script.Compaction(None)
        case script.ServerToolUse():
            return script.ServerToolUse(block.name, {}, block.id)
        case script.ServerToolResult():
            # The API sends it whole.
            return block


def _deltas(block: script.Block) -> Iterator[dict[str, Any]]:
    match block:
        case script.Text():
            yield from ({"type": "text_delta", "text": piece} for piece in block.pieces)
            yield from ({"type": "citations_delta", "citation": each} for each in block.citations)
        case script.Thinking():
            pieces = script.Text(block.thinking).pieces
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces)
            yield {"type": "signature_delta", "signature": block.signature}
        case script.ToolUse():
            yield from _input_deltas(json.dumps(block.input) if block.raw is None else block.raw)
        case script.ServerToolUse():
            yield from _input_deltas(json.dumps(block.input))
        case script.Compaction():
            yield {"type": "compaction_delta", "content": block.content}
        case script.ServerToolResult():
            return


def _input_deltas(text: str) -> Iterator[dict[str, Any]]:
    length = max(JSON_PIECE, len(text) // MOST_PIECES)
    for start in range(0, len(text), length):
        yield {"type": "input_json_delta", "partial_json": text[start : start + length]}


def _content(index: int, block: script.Block, reply: script.Reply) -> dict[str, Any]:
    match block:
        case script.Text():
            cited = {"citations": list(block.citations)} if block.citations else {}
            return {"type": "text", "text": block.text, **cited}
        case script.Thinking():
            return {"type": "thinking", "thinking": block.thinking, "signature": block.signature}
        case script.ToolUse():
            call_id = block.id or f"toolu_{reply.message_id.removeprefix('msg_')}_{index}"
            return {"type": "tool_use", "id": call_id, "name": block.name, "input": block.input}
        case script.Compaction():
            return {"type": "compaction", "content": block.content}
        case script.ServerToolUse():
            return {"type": "server_tool_use", "id": block.id, "name": block.name, "input": block.input}
        case script.ServerToolResult():
            return {"type": block.kind, "tool_use_id": block.tool_use_id, "content": block.content}
