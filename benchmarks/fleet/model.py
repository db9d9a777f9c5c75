"""The model of these measurements, in a process of its own: what it does is in the prompt.

Unlike the simulator it keeps nothing of what it has sent, and notes in each word when it was sent.
"""

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import psutil

from app.platform.server.loopback import (
    Receive,
    Scope,
    Send,
    read_body,
    serve_on_loopback,
    wait_for_disconnect,
)
from app.simulator import wire
from app.simulator.script import Reply, Text, ToolUse, blocks_of, text_of
from benchmarks.processes import a_process_of

SHORT = "A short answer."
LIVE = "An answer until the end."
"""Writes a word now and then until the model is released."""

MAIL = "Send a mail."
"""Calls a tool that needs a person's decision, and answers shortly after it."""

_STREAM = re.compile(r"Stream (\d+) words, ([\d.]+) s apart\.")
_WORD_S = 20.0
_CONNECTIONS = 8000
_MAIL = {"to": "a@example.org", "text": "Good morning."}
_TIME = re.compile(rb"@(\d+\.\d+)@")


def stream_of(words: int, pause_s: float) -> str:
    """The prompt for a stream of words, each of which contains when it was sent."""
    return f"Stream {words} words, {pause_s} s apart."


def sent_at(raw: bytes) -> list[float]:
    """When the words in this text were sent, in seconds of the machine's monotonic clock."""
    return [float(found) for found in _TIME.findall(raw)]


@dataclass(frozen=True, slots=True)
class FleetModel:
    """A running model."""

    url: str
    process: psutil.Process
    _commands: Connection

    async def release(self) -> None:
        """End the answers that go on; later ones are not affected."""
        self._commands.send(None)
        await asyncio.to_thread(self._commands.recv)


@asynccontextmanager
async def fleet_model() -> AsyncIterator[FleetModel]:
    """Start it."""
    async with a_process_of(_run) as (process, commands):
        yield FleetModel(await asyncio.to_thread(commands.recv), process, commands)


def _run(commands: Connection) -> None:
    asyncio.run(_serve(commands))


async def _serve(commands: Connection) -> None:
    answers = _Answers()

    def release() -> None:
        commands.recv()
        answers.released.set()
        answers.released = asyncio.Event()
        commands.send(None)

    asyncio.get_running_loop().add_reader(commands.fileno(), release)
    async with serve_on_loopback(answers.handle, connections=_CONNECTIONS) as url:
        commands.send(url)
        await asyncio.Event().wait()


@dataclass(slots=True)
class _Answers:
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        if not scope["path"].endswith("/v1/messages"):
            found = {"data": [], "has_more": False, "input_tokens": 10}
            await _start(send, "application/json")
            await send({"type": "http.response.body", "body": json.dumps(found).encode()})
            return
        request = json.loads(body)
        await _start(send, "text/event-stream")
        sending = asyncio.create_task(self._send(request, send))
        leaving = asyncio.create_task(wait_for_disconnect(receive))
        await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        for task in (sending, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _send(self, request: dict[str, Any], send: Send) -> None:
        prompt = _prompt(request["messages"])
        stream = _STREAM.search(prompt)
        if LIVE in prompt:
            events = self._live()
        elif stream is not None:
            events = _paced(int(stream[1]), float(stream[2]))
        else:
            events = _at_once(_reply(prompt, request))
        async for event in events:
            await send(
                {"type": "http.response.body", "body": _frame(event, request["model"]), "more_body": True}
            )
        await send({"type": "http.response.body", "body": b""})

    async def _live(self) -> AsyncIterator[dict[str, Any]]:
        first, last, released = *_around(), self.released
        for event in first:
            yield event
        yield _word("word ")
        while not released.is_set():
            # The gateway gives up a model that writes nothing for 30 s.
            with suppress(TimeoutError):
                await asyncio.wait_for(released.wait(), _WORD_S)
            yield _word("word ")
        for event in last:
            yield event


async def _paced(words: int, pause_s: float) -> AsyncIterator[dict[str, Any]]:
    first, last = _around()
    for event in first:
        yield event
    for _ in range(words):
        await asyncio.sleep(pause_s)
        yield _word(f"@{time.monotonic():.6f}@ ")
    for event in last:
        yield event


async def _at_once(reply: Reply) -> AsyncIterator[dict[str, Any]]:
    for event in wire.events(reply, model=""):
        yield event


def _around() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The events before the first and after the last word."""
    events = wire.events(Reply([Text("word")]), model="")
    index = next(number for number, event in enumerate(events) if event["type"] == "content_block_delta")
    return events[:index], events[index + 1 :]


def _word(text: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}


def _frame(event: dict[str, Any], model: str) -> bytes:
    if event["type"] == "message_start":
        event = {**event, "message": {**event["message"], "model": model}}
    return wire.sse(event)


def _prompt(messages: Iterable[dict[str, Any]]) -> str:
    """The text of the last message of the user that has any."""
    texts = [text_of(message["content"]) for message in messages if message["role"] == "user"]
    return next((text for text in reversed(texts) if text), "")


def _reply(prompt: str, request: dict[str, Any]) -> Reply:
    if MAIL in prompt and not blocks_of(request["messages"][-1], "tool_result"):
        name = next(tool["name"] for tool in request["tools"] if tool["name"].endswith("send_mail"))
        return Reply([ToolUse(name, _MAIL)])
    return Reply([Text("Good morning.")])


async def _start(send: Send, kind: str) -> None:
    headers = [(b"content-type", kind.encode()), (b"request-id", b"req_fleet")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
