"""What a process gets in place of a provider's answer while it warms up.

It has the shape of a provider's streamed answer, so that the process loads everything that a real one needs.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from app.gateway.bodies import BodyRefused
from app.platform.server.loopback import Send

_USAGE: Final = {"input_tokens": 0, "output_tokens": 0}


async def send_warm_up_answer(send: Send, body: bytes) -> None:
    """Answer a request to the Messages API with one word and no usage; raises `BodyRefused`."""
    try:
        model = str(json.loads(body)["model"])
    except (ValueError, KeyError, TypeError) as error:
        raise BodyRefused(400) from error
    events = b"".join(map(_event, _events(model)))
    headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": events})


def _events(model: str) -> list[Mapping[str, Any]]:
    message: Mapping[str, Any] = {
        "id": "msg_warm_up",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": _USAGE,
    }
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ready"}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": end, "usage": _USAGE},
        {"type": "message_stop"},
    ]


def _event(event: Mapping[str, Any]) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
