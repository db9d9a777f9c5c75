"""Both foreign wires end a response where a person must decide."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Sequence

import pytest

from app.events import ClientEvent, Done, TextDelta
from app.http.ag_ui.output.encoder import AgUiEncoder
from app.http.ai_sdk.encoder import AiSdkEncoder
from app.http.streaming.encoder import PAUSE_AT_LATEST_S, PausingEncoder
from app.http.streaming.pausing import chunks_until_pause
from app.streams.port import LogEntry
from tests.patience import PATIENCE_S
from tests.unit.clock import Clock
from tests.unit.http.events import CALL, DONE, REQUEST, RESOLVED, RESULT, STARTED
from tests.unit.waiting import turns

PAUSE = {"ag_ui": b'"outcome":{"type":"interrupt"', "ai_sdk": b"[DONE]"}


class Run:
    """Yields its batches; then waits for more until it is closed, unless it has ended."""

    def __init__(self, *batches: Sequence[ClientEvent]) -> None:
        self.batches: list[list[LogEntry]] = []
        position = 0
        for batch in batches:
            self.batches.append([LogEntry(position + index, event) for index, event in enumerate(batch, 1)])
            position += len(batch)
        self.closed = False

    async def follow(self) -> AsyncGenerator[Sequence[LogEntry], None]:
        try:
            for batch in self.batches:
                yield batch
                # Stored batches need a few turns of the event loop.
                await turns(5)
            if not isinstance(self.batches[-1][-1].event, Done):
                await asyncio.Event().wait()
        finally:
            self.closed = True


def an_encoder(wire: str) -> PausingEncoder:
    if wire == "ag_ui":
        return AgUiEncoder(thread_id="t-1", run_id="theirs", our_run_id="r-1")
    return AiSdkEncoder("r-1", approvals=True)


async def response_of(run: Run, encoder: PausingEncoder) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return b"".join([chunk async for chunk in chunks_until_pause(run.follow(), encoder)])


wires = pytest.mark.parametrize("wire", PAUSE)


@wires
async def test_a_response_ends_where_a_person_must_decide(wire: str) -> None:
    run = Run([STARTED, CALL, REQUEST])

    response = await response_of(run, an_encoder(wire))

    assert response.count(PAUSE[wire]) == 1
    assert run.closed


@wires
async def test_a_stored_decision_is_read_before_a_response_would_end(wire: str) -> None:
    """A replay comes in batches; one may end with a request whose decision is in the next."""
    run = Run([STARTED, CALL, REQUEST], [RESOLVED, RESULT], [TextDelta(message_id="m", delta="Sent."), DONE])

    response = await response_of(run, an_encoder(wire))

    assert b"Sent." in response
    assert response.count(b"[DONE]") == (1 if wire == "ai_sdk" else 0)
    assert b"interrupt" not in response


@wires
async def test_a_run_that_ends_while_it_waits_is_not_paused(wire: str) -> None:
    run = Run([STARTED, CALL, REQUEST], [DONE])

    response = await response_of(run, an_encoder(wire))

    assert b'"interrupt"' not in response
    assert b"finishReason" in response or b"RUN_FINISHED" in response
    assert run.closed


SUBAGENT = TextDelta(message_id="m2", delta="Searching.", parent_tool_call_id="agent")


async def test_events_of_a_subagent_do_not_delay_the_pause_for_ever() -> None:
    clock = Clock(0)

    async def follow() -> AsyncGenerator[Sequence[LogEntry], None]:
        yield [LogEntry(1, STARTED), LogEntry(2, CALL), LogEntry(3, REQUEST)]
        for position in itertools.count(4):
            clock.now += 0.01
            yield [LogEntry(position, SUBAGENT)]

    async with asyncio.timeout(PATIENCE_S):
        chunks = [chunk async for chunk in chunks_until_pause(follow(), an_encoder("ai_sdk"), clock=clock)]

    assert clock.now == pytest.approx(PAUSE_AT_LATEST_S, abs=0.02)
    assert b"".join(chunks).count(PAUSE["ai_sdk"]) == 1


async def test_the_time_a_slow_reader_takes_does_not_count() -> None:
    clock, chunks = Clock(), list[bytes]()
    run = Run(
        [STARTED, CALL, REQUEST],
        [SUBAGENT],
        [SUBAGENT],
        [RESOLVED, RESULT],
        [TextDelta(message_id="m", delta="Sent."), DONE],
    )

    async with asyncio.timeout(PATIENCE_S):
        async for chunk in chunks_until_pause(run.follow(), an_encoder("ai_sdk"), clock=clock):
            chunks.append(chunk)
            clock.now += 2 * PAUSE_AT_LATEST_S

    assert b"Sent." in b"".join(chunks)
