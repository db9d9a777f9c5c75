"""What approvals, client tools and questions have in common."""

import asyncio
from datetime import timedelta

import pytest
from pydantic import TypeAdapter

from app.errors import Conflict, NotFound
from app.events import ControlEvent, QuestionAsked, QuestionResolved
from app.executors.waiting.calls import CallKind, Resolution, WaitingCalls
from app.executors.waiting.port import UnstoredWaits
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
    waiting.cancel()
    await asyncio.sleep(0)
    assert not calls.is_waiting
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
