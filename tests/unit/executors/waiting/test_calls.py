"""What approvals, client tools and questions have in common."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter

from app.errors import Conflict, NotFound
from app.events import ControlEvent, QuestionAsked, QuestionResolved, ResolvedBy
from app.executors.waiting.calls import CallKind, Resolution, WaitingCalls
from app.executors.waiting.port import StoredCall, UnstoredWaits
from tests.patience import PATIENCE_S


def request(expires_at: str) -> QuestionAsked:
    return QuestionAsked(request_id="c", source="desk", questions=(), expires_at=expires_at)


def resolved(call_id: str, resolution: Resolution[str]) -> QuestionResolved:
    by = "answered" if resolution.answer else "run_stopped"
    return QuestionResolved(request_id=call_id, resolved_by=by)


KIND = CallKind("question", TypeAdapter(str), unknown=NotFound, answered=Conflict, resolved_event=resolved)


async def test_a_call_that_is_cancelled_is_resolved_once_its_request_is_published() -> None:
    """The request counts although nobody waits for its publication any more."""
    published: list[ControlEvent] = []
    may_publish = asyncio.Event()

    async def publish(event: ControlEvent) -> None:
        await may_publish.wait()
        published.append(event)

    calls = WaitingCalls(publish, timedelta(seconds=60), KIND, UnstoredWaits())
    waiting = asyncio.create_task(calls.wait("c", request))
    await asyncio.sleep(0)
    is_waiting_unseen = calls.is_waiting
    waiting.cancel()
    await asyncio.sleep(0)
    assert (is_waiting_unseen, calls.is_waiting) == (False, False)
    may_publish.set()
    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(waiting, return_exceptions=True)
        await calls.end()

    assert waiting.cancelled()
    assert [event.type for event in published] == ["question", "question_resolved"]
    with pytest.raises(Conflict):
        await calls.answer("c", "late")


async def test_of_two_answers_during_a_check_the_first_one_checked_counts() -> None:
    checked: asyncio.Queue[str] = asyncio.Queue()
    release = asyncio.Event()

    async def check(answer: str) -> None:
        checked.put_nowait(answer)
        await release.wait()

    async def publish(_event: ControlEvent) -> None:
        return

    calls = WaitingCalls(publish, timedelta(seconds=60), KIND, UnstoredWaits())
    waiting = asyncio.create_task(calls.wait("c", request, check))
    await asyncio.sleep(0)
    answers = [asyncio.create_task(calls.answer("c", text)) for text in ("a", "b", "a")]
    async with asyncio.timeout(PATIENCE_S):
        assert [await checked.get() for _ in answers] == ["a", "b", "a"]
        release.set()
        outcomes = await asyncio.gather(*answers, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes] == [type(None), Conflict, type(None)]
    assert (await waiting).answer == "a"


class SlowWaits(UnstoredWaits):
    """Calls whose resolutions take their time to be stored."""

    def __init__(self) -> None:
        self.stored: list[str] = []
        self.may_resolve = asyncio.Event()

    async def resolve(
        self, call_id: str, resolved_by: ResolvedBy, answer: object = None
    ) -> tuple[ResolvedBy, Any]:
        self.stored.append(call_id)
        await self.may_resolve.wait()
        return resolved_by, answer


async def test_an_answer_that_is_stored_while_the_run_is_parked_is_for_its_next_attempt() -> None:
    """Otherwise the call would be executed here and there."""
    published: list[ControlEvent] = []

    async def publish(event: ControlEvent) -> None:
        published.append(event)

    waits = SlowWaits()
    calls = WaitingCalls(publish, timedelta(seconds=60), KIND, waits)
    waiting = asyncio.create_task(calls.wait("c", request, tool_call_id="toolu_1"))
    async with asyncio.timeout(PATIENCE_S):
        while calls.waiting_tool_calls != {"toolu_1"}:
            await asyncio.sleep(0)
        answering = asyncio.create_task(calls.answer("c", "a"))
        while waits.stored != ["c"]:
            await asyncio.sleep(0)
        parked = calls.park()
        waits.may_resolve.set()
        await answering
    await asyncio.sleep(0)
    is_waiting = not waiting.done()
    waiting.cancel()
    await asyncio.wait({waiting})
    await calls.end(is_parked=True)

    assert (parked, is_waiting) == (["c"], True)
    assert [event.type for event in published] == ["question"]


@pytest.mark.parametrize(("resolved_by", "answer"), [("decided", "a"), ("expired", None)])
async def test_a_parked_call_goes_on_with_what_is_stored_and_is_published_once(
    resolved_by: ResolvedBy, answer: str | None
) -> None:
    published: list[ControlEvent] = []

    async def publish(event: ControlEvent) -> None:
        published.append(event)

    calls = WaitingCalls(publish, timedelta(seconds=60), KIND, UnstoredWaits())
    at = datetime.now(UTC) + timedelta(seconds=60)
    over = StoredCall("b", "question", "toolu_0", {}, at, "decided", "before")
    kept = StoredCall("c", "question", "toolu_1", {}, at, resolved_by, answer, is_parked=True)
    for stored in (over, kept):
        calls.keep(stored)
    assert (calls.keeps("toolu_0"), calls.keeps("toolu_1")) == (False, True)
    async with asyncio.timeout(PATIENCE_S):
        resolution = await calls.wait("other", request, tool_call_id="toolu_1")
        await calls.answer("b", "before")
        with pytest.raises(Conflict):
            await calls.answer("c", "different")
        await calls.end()

    assert (resolution.reason, resolution.answer) == (resolved_by, answer)
    assert [event.type for event in published] == ["question_resolved"]
