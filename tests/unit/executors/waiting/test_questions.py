"""Which answers a question takes, and what its readers see."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from app.errors import Invalid, Unavailable
from app.events import ControlEvent, QuestionAsked, QuestionItem, QuestionOption, QuestionResolved
from app.executors.waiting.port import UnstoredWaits
from app.executors.waiting.questions import (
    QuestionAnswered,
    QuestionNotFound,
    QuestionReply,
    Questions,
    given_answers,
)
from app.tools.mcp.spec import ServerName, server_name
from tests.patience import PATIENCE_S

OPTIONS = (QuestionOption(label="Red"), QuestionOption(label="Blue"))
COLOR = QuestionItem(question="Which color?", options=OPTIONS, multi_select=False)
SIZES = QuestionItem(question="1", options=OPTIONS, multi_select=True)
CHOICE = COLOR.model_copy(update={"question": "Choose", "only_options": True})
NOTE = QuestionItem(question="Note", options=(), multi_select=False, optional=True)


@pytest.mark.parametrize(
    ("questions", "posted", "given"),
    [
        ([COLOR], {"Which color?": "Red"}, (("Red",),)),
        ([COLOR], {"0": " anything\u0000 "}, ((" anything� ",),)),
        ([COLOR, SIZES], {"0": "Red", "1": ["Blue", "x", "Blue"]}, (("Red",), ("Blue", "x"))),
        ([SIZES, COLOR], {"1": "Red", "Which color?": "Blue"}, (("Red",), ("Blue",))),
        ([SIZES], {"0": []}, ((),)),
        ([CHOICE, NOTE], {"0": "Red"}, (("Red",), None)),
    ],
)
def test_answers_are_named_by_text_or_index(questions: list[QuestionItem], posted: Any, given: Any) -> None:
    assert given_answers(questions, posted) == given


@pytest.mark.parametrize(
    ("questions", "posted", "fields"),
    [
        ([COLOR, SIZES], {}, ["answers.0", "answers.1"]),
        ([COLOR], {"0": ["Red"]}, ["answers.0"]),
        ([COLOR], {"0": " "}, ["answers.0"]),
        ([COLOR], {"0": "x" * 4_001}, ["answers.0"]),
        ([COLOR], {"0": "Red", "1": "Red"}, ["answers.1"]),
        ([COLOR], {"0": "Red", "Which color?": "Blue"}, ["answers"]),
        ([CHOICE], {"0": "Green"}, ["answers.0"]),
        ([CHOICE.model_copy(update={"multi_select": True})], {"0": ["Red", "Green"]}, ["answers.0"]),
        ([COLOR], {"0": "Red", "y" * 1_000: "Red"}, [f"answers.{'y' * 100}"]),
    ],
)
def test_each_wrong_answer_is_named(questions: list[QuestionItem], posted: Any, fields: list[str]) -> None:
    with pytest.raises(Invalid) as refused:
        given_answers(questions, posted)
    assert [error.field for error in refused.value.errors] == fields


def test_no_server_has_the_name_of_the_agent() -> None:
    with pytest.raises(ValidationError, match="would look like the agent's own"):
        TypeAdapter(ServerName).validate_python("agent")
    assert server_name("Agent") == "server"


async def asking(questions: Questions, events: "asyncio.Queue[ControlEvent]", **more: Any) -> Any:
    """A question that readers see, and the task that waits for its answer."""
    waiting = asyncio.create_task(questions.ask([COLOR], source="desk", **more))
    async with asyncio.timeout(PATIENCE_S):
        asked = await events.get()
    assert isinstance(asked, QuestionAsked)
    return asked.request_id, waiting


async def test_the_first_answer_counts_and_readers_see_it() -> None:
    events: asyncio.Queue[ControlEvent] = asyncio.Queue()
    questions = Questions(events.put, UnstoredWaits(), timeout=timedelta(seconds=60))
    request_id, waiting = await asking(questions, events)

    await questions.answer(request_id, {"0": "Red"})
    await questions.answer(request_id, {"Which color?": "Red"})
    for other in ({"0": "Blue"}, None):
        with pytest.raises(QuestionAnswered):
            await questions.answer(request_id, other)
    with pytest.raises(QuestionNotFound):
        await questions.answer("another", {"0": "Red"})

    assert (await waiting).answer == QuestionReply((("Red",),))
    assert await events.get() == QuestionResolved(
        request_id=request_id, resolved_by="answered", answers=(("Red",),)
    )


async def test_an_answer_that_the_asking_side_refuses_leaves_the_question_open() -> None:
    async def check(_answers: object) -> None:
        raise Invalid.field("answers.0", "must be a color")

    events: asyncio.Queue[ControlEvent] = asyncio.Queue()
    questions = Questions(events.put, UnstoredWaits(), timeout=timedelta(seconds=60))
    request_id, waiting = await asking(questions, events, check=check)

    with pytest.raises(Invalid):
        await questions.answer(request_id, {"0": "Red"})
    assert not waiting.done()
    await questions.answer(request_id, None)

    assert (await waiting).answer == QuestionReply(None)
    assert await events.get() == QuestionResolved(request_id=request_id, resolved_by="declined")


@pytest.mark.parametrize(("timeout_s", "resolved_by"), [(0.01, "expired"), (60, "run_stopped")])
async def test_a_question_that_nobody_answers_has_no_answer(timeout_s: float, resolved_by: str) -> None:
    events: asyncio.Queue[ControlEvent] = asyncio.Queue()
    questions = Questions(events.put, UnstoredWaits(), timeout=timedelta(seconds=timeout_s))
    request_id, waiting = await asking(questions, events)
    if resolved_by == "run_stopped":
        await questions.calls.end()

    resolution = await waiting

    assert (resolution.answer, resolution.reason) == (None, resolved_by)
    resolved = await events.get()
    assert isinstance(resolved, QuestionResolved)
    assert resolved.resolved_by == resolved_by
    with pytest.raises(QuestionAnswered):
        await questions.answer(request_id, {"0": "Red"})
    await questions.calls.end()
    assert (await questions.ask([COLOR], source="desk")).reason == "run_stopped"
    assert events.empty()


async def test_a_request_that_readers_cannot_get_is_not_resolved_for_them() -> None:
    published: list[ControlEvent] = []

    async def publish(event: ControlEvent) -> None:
        published.append(event)
        raise Unavailable

    questions = Questions(publish, UnstoredWaits(), timeout=timedelta(seconds=60))
    with pytest.raises(Unavailable):
        await questions.ask([COLOR], source="desk")
    assert [event.type for event in published] == ["question"]
