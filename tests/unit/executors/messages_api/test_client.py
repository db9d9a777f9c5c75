import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

from app.executors.messages_api.client import MessagesClient
from app.platform.server.loopback import Receive, Scope, Send

TEXTS = ["One", " two", " three"]


async def answers_at_once(_scope: Scope, _receive: Receive, send: Send) -> None:
    events = [
        {"type": "content_block_delta", "delta": {"type": "text_delta", "text": text}} for text in TEXTS
    ]
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body.encode(), "more_body": False})


async def test_the_first_text_is_shown_before_the_rest_is_read() -> None:
    loop, read = asyncio.get_running_loop(), list[str]()
    channel = cast("Any", SimpleNamespace(token="token"))

    async with MessagesClient(answers_at_once) as client, client.stream(channel, "{}") as events:
        async for event in events:
            if not read:
                loop.call_soon(read.append, "shown")
            read.append(event["delta"]["text"])

    assert read == [TEXTS[0], "shown", *TEXTS[1:]]
