"""An idle log is distinguished from one that has ended."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pytest

from app.events import TextDelta
from app.streams.idle_timeout import with_idle_timeout
from app.streams.port import LogEntry

FIRST = [LogEntry(1, TextDelta(message_id="msg_1", delta="one"))]
SECOND = [LogEntry(2, TextDelta(message_id="msg_1", delta="two"))]


async def test_an_idle_log_is_reported_and_no_batch_is_lost() -> None:
    resume = asyncio.Event()

    async def batches() -> AsyncGenerator[Sequence[LogEntry], None]:
        yield FIRST
        await resume.wait()
        yield SECOND

    received = with_idle_timeout(batches(), lambda: 0.01)
    assert [await anext(received) for _ in range(3)] == [FIRST, None, None]
    resume.set()
    assert [batch async for batch in received if batch is not None] == [SECOND]


async def test_the_error_of_a_log_is_raised_and_the_log_is_closed() -> None:
    closed = False

    async def batches() -> AsyncGenerator[Sequence[LogEntry], None]:
        nonlocal closed
        try:
            yield FIRST
            raise ConnectionError
        finally:
            closed = True

    received = with_idle_timeout(batches(), lambda: None)
    assert await anext(received) == FIRST
    with pytest.raises(ConnectionError):
        await anext(received)
    assert closed


async def test_a_reader_that_leaves_while_the_log_is_idle_closes_it() -> None:
    closed = asyncio.Event()

    async def batches() -> AsyncGenerator[Sequence[LogEntry], None]:
        try:
            yield FIRST
            await asyncio.Event().wait()
        finally:
            closed.set()

    async with aclosing(with_idle_timeout(batches(), lambda: 0.01)) as received:
        assert [await anext(received) for _ in range(2)] == [FIRST, None]
    assert closed.is_set()
