"""Streaming a run up to its end, or to where it waits for a person's decision."""

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import TypeAlias

from app.bootstrap.services import Services
from app.events import BudgetReached, ClientToolCall, PermissionRequest, QuestionAsked
from app.http.streaming.encoder import PausingEncoder
from app.http.streaming.sse import split_batch
from app.ids import RunKey
from app.platform.pagination import MAX_PAGE, PageRequest
from app.runs.waits.listing.records import CallFilter
from app.streams.idle_timeout import with_idle_timeout
from app.streams.port import LogEntry

Waiting: TypeAlias = PermissionRequest | QuestionAsked | BudgetReached
"""What a person has to answer."""


async def chunks_until_pause(
    batches: AsyncGenerator[Sequence[LogEntry], None],
    encoder: PausingEncoder,
    *,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncGenerator[bytes, None]:
    """The encoded frames of a run; `batches` must start with its first entry."""
    # Without the time a slow reader takes: it may be reading stored events, with the decision among them.
    waited_s = 0.0
    batches_or_idle = with_idle_timeout(batches, lambda: encoder.pause_after_s)
    yield encoder.preamble
    async with aclosing(batches_or_idle):
        while True:
            began = clock()
            batch = await anext(batches_or_idle, None)
            if batch is None:
                break
            waited_s = 0.0 if encoder.pause_after_s is None else waited_s + clock() - began
            for part in split_batch(batch):
                if chunk := encoder.encode(part):
                    yield chunk
            if encoder.ended:
                return
            if _is_late(encoder, waited_s):
                break
    if encoder.pause_after_s is not None:
        yield encoder.encode_pause()


def _is_late(encoder: PausingEncoder, waited_s: float) -> bool:
    limit = encoder.pause_at_latest_s
    return limit is not None and encoder.pause_after_s is not None and waited_s >= limit


def what_waits(waiting: Waiting) -> str:
    """It, in a text for a person."""
    match waiting:
        case PermissionRequest(tool_name=name):
            return f"the tool {name} needs approval"
        case BudgetReached():
            return "the budget of this run is used up"
        case _:
            return "the agent asks a question"


async def decided_requests(services: Services, run: RunKey) -> frozenset[str]:
    """The requests that need no person any more, whether or not the run has published that."""
    asked = asked_in(await services.runs.events(run))
    return frozenset(asked.keys() - await waiting_calls(services, run))


def asked_in(entries: Iterable[LogEntry]) -> dict[str, Waiting | ClientToolCall]:
    """What these entries ask of a person or of the client, by the ids of requests and calls."""
    return {
        event.tool_call_id if isinstance(event, ClientToolCall) else event.request_id: event
        for _, event, _ in entries
        if isinstance(event, Waiting | ClientToolCall)
    }


async def waiting_calls(services: Services, run: RunKey) -> set[str]:
    """The calls and requests of a run that wait for an answer."""
    chosen, page = CallFilter(run_ids=[run.run_id]), PageRequest(MAX_PAGE)
    waits = (await services.account_calls.page(run.account_id, chosen, page)).calls
    return {call.call_id for call in waits}
