"""Events for an event log, and a reader."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import TypeAlias

from app.events import ClientEvent, Done, RunStarted, TextDelta
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.requests.outcome import FinalUsage
from app.streams.memory import MemoryEventLog
from app.streams.port import LogEntry
from app.streams.relay.client import Relay
from app.streams.relayed import RelayedEventLog
from tests.entries import AnyTime
from tests.patience import PATIENCE_S

Log: TypeAlias = MemoryEventLog | RelayedEventLog
DONE = Done(usage=FinalUsage(prompt_tokens=3, completion_tokens=4), finish_reason="stop")


def a_run(run_id: str = "run") -> RunKey:
    return RunKey(AccountId(new_uuid()), RunId(run_id))


def a_word(text: str) -> TextDelta:
    return TextDelta(message_id="msg_1", delta=text)


def some_events(count: int) -> list[ClientEvent]:
    """A whole run of so many events."""
    words = [a_word(f" word{number}") for number in range(count - 2)]
    started = RunStarted(run_id="run", graph_id="claude_agents:assistant", model="m", attempt=1)
    return [started, *words, DONE]


def with_positions(events: Sequence[ClientEvent], after: int = 0, *, shift: int = 0) -> Sequence[LogEntry]:
    return [AnyTime(position, event) for position, event in enumerate(events, start=shift + 1)][after:]


async def append_all(log: Log, run: RunKey, events: Sequence[ClientEvent]) -> None:
    for event in events:
        await log.append(run, event)


async def read_all(log: Log, run: RunKey, after: int = 0) -> list[LogEntry]:
    """Everything a reader gets until the log ends."""
    async with asyncio.timeout(PATIENCE_S), aclosing(log.follow(run, after=after)) as batches:
        return [entry async for batch in batches for entry in batch]


@asynccontextmanager
async def a_relay(url: str, *, timeout_s: float = 5.0, check_s: float = 0.1) -> AsyncIterator[Relay]:
    relay = await Relay.open(url, timeout_s=timeout_s, check_s=check_s)
    try:
        yield relay
    finally:
        await relay.aclose()


@asynccontextmanager
async def a_relayed_log(url: str, *, timeout_s: float = 5.0) -> AsyncIterator[RelayedEventLog]:
    """As one server process has it."""
    async with a_relay(url, timeout_s=timeout_s, check_s=0.1) as relay:
        log = RelayedEventLog(relay)
        try:
            yield log
        finally:
            await log.aclose()
