import asyncio
from datetime import timedelta
from typing import Any

import pytest
from pydantic import JsonValue

from app.errors import Unavailable
from app.events import ClientToolCall, ControlEvent
from app.executors.client_calls import (
    MAX_RESULT_BYTES,
    ClientToolCallAnswered,
    ClientToolCallNotFound,
    ClientToolCalls,
    ClientToolResult,
)
from app.executors.waiting.port import UnstoredWaits
from runtally.tools.result import ToolResult
from tests.patience import PATIENCE_S


class Readers:
    """What readers see of a run's calls."""

    def __init__(self, *, timeout_s: float = 60) -> None:
        self.events: asyncio.Queue[ControlEvent] = asyncio.Queue()
        self.calls = ClientToolCalls(self.events.put, UnstoredWaits(), timeout=timedelta(seconds=timeout_s))

    async def call(self, call_id: str = "c") -> "asyncio.Task[ToolResult]":
        """A call that clients can see."""
        calling = asyncio.create_task(self.calls.call("pick", {"about": "sky"}, call_id=call_id))
        async with asyncio.timeout(PATIENCE_S):
            event = await self.events.get()
        assert isinstance(event, ClientToolCall)
        assert (event.tool_call_id, event.tool_name, event.args) == (call_id, "pick", {"about": "sky"})
        return calling


async def test_a_run_waits_while_readers_see_a_call_without_a_result() -> None:
    readers, is_published = Readers(), asyncio.Event()

    async def publish(_event: ControlEvent) -> None:
        await is_published.wait()

    unseen = ClientToolCalls(publish, UnstoredWaits(), timeout=timedelta(seconds=10 * PATIENCE_S))
    calling = asyncio.create_task(unseen.call("pick", {}, call_id="c"))
    await asyncio.sleep(0)
    before = (readers.calls.calls.is_waiting, unseen.calls.is_waiting)
    await readers.call()

    assert (before, readers.calls.calls.is_waiting) == ((False, False), True)
    await readers.calls.answer("c", ClientToolResult("blue"))
    assert not readers.calls.calls.is_waiting
    is_published.set()
    await unseen.calls.end()
    assert (await calling).code == "failed"
    assert not unseen.calls.is_waiting


@pytest.mark.parametrize(
    ("result", "same", "other", "shown"),
    [
        ("blue", "blue", "red", "blue"),
        ({"a": 1, "b": [None]}, {"b": [None], "a": 1}, {"a": True, "b": [None]}, '{"a": 1, "b": [null]}'),
        (1, 1, 1.0, "1"),
        (None, None, "null", "null"),
        ("", "", None, ""),
    ],
)
async def test_a_result_counts_once(result: Any, same: Any, other: Any, shown: str) -> None:
    readers = Readers()
    calling = await readers.call()

    await readers.calls.answer("c", ClientToolResult(result))
    await readers.calls.answer("c", ClientToolResult(same))
    for different in (ClientToolResult(other), ClientToolResult(result, is_error=True)):
        with pytest.raises(ClientToolCallAnswered):
            await readers.calls.answer("c", different)

    assert await calling == ToolResult(shown, result)
    await readers.calls.answer("c", ClientToolResult(same))
    with pytest.raises(ClientToolCallNotFound):
        await readers.calls.answer("d", ClientToolResult(result))


async def test_an_error_of_the_client_fails_the_call() -> None:
    readers = Readers()
    calling = await readers.call()

    await readers.calls.answer("c", ClientToolResult({"why": "offline"}, is_error=True))

    assert await calling == ToolResult('{"why": "offline"}', {"why": "offline"}, "failed")


@pytest.mark.parametrize("text", ["x" * MAX_RESULT_BYTES, "é" * MAX_RESULT_BYTES, ["é" * MAX_RESULT_BYTES]])
async def test_a_long_result_is_cut_off_with_a_note(text: JsonValue) -> None:
    result = ClientToolResult(text).kept

    if text == "x" * MAX_RESULT_BYTES:
        assert (result.text, result.visible) == (text, text)
    else:
        head, _, note = result.text.partition("\n")
        assert MAX_RESULT_BYTES - 1 <= len(head.encode()) <= MAX_RESULT_BYTES
        assert "was cut off" in note
        assert result.visible == result.text


async def test_a_call_without_a_result_fails_in_time_and_takes_none_later() -> None:
    readers = Readers(timeout_s=0.01)
    calling = await readers.call()

    assert await calling == ToolResult("Nothing answered this call in time.", {"error": "timeout"}, "timeout")
    with pytest.raises(ClientToolCallAnswered):
        await readers.calls.answer("c", ClientToolResult("late"))


async def test_the_end_of_the_run_ends_its_calls() -> None:
    readers = Readers()
    calling = await readers.call()

    await readers.calls.calls.end()

    assert (await calling).visible == {"error": "failed"}
    assert (await readers.calls.call("pick", {}, call_id="d")).is_error
    assert readers.events.empty()


async def test_a_call_that_clients_cannot_get_fails() -> None:
    async def publish(_event: ControlEvent) -> None:
        raise Unavailable

    calls = ClientToolCalls(publish, UnstoredWaits(), timeout=timedelta(seconds=10 * PATIENCE_S))

    assert (await calls.call("pick", {}, call_id="c")).visible == {"error": "failed"}
