"""Questions: what the agent, or a server of its tools, asks a person; each waits for its answers."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeAlias

from pydantic import TypeAdapter

from app.errors import Conflict, FieldError, Invalid, NotFound
from app.events import GivenAnswers, QuestionAsked, QuestionItem, QuestionResolved
from app.executors.waiting.calls import CallKind, Publish, Resolution, WaitingCalls
from app.executors.waiting.port import StoredCall, Waits
from app.ids import new_uuid
from app.requests.blank import BLANK, is_blank
from app.storable import storable

MAX_ANSWER_CHARS: Final = 4_000
_MAX_KEY_CHARS = 100

PostedAnswers: TypeAlias = Mapping[str, str | list[str]]
"""By the text of a question, or its index: an option's label, several of them, or any other text."""


class QuestionNotFound(NotFound):
    """No question of this run has this id."""

    code = "question_not_found"


class QuestionAnswered(Conflict):
    """This question has another answer already, or its time was up."""

    code = "question_answered"


@dataclass(frozen=True, slots=True)
class QuestionReply:
    """What a person has answered; `answers` is None if they decline to."""

    answers: GivenAnswers | None


Check: TypeAlias = Callable[[GivenAnswers], Awaitable[object]]
"""Raises `Invalid` for answers that the asking side does not take."""


class Questions:
    """One run's questions; only used on the loop that executes it."""

    def __init__(self, publish: Publish, waits: Waits, *, timeout: timedelta = timedelta()) -> None:
        """`timeout` is how long a question waits."""
        self._asked: dict[str, Sequence[QuestionItem]] = {}
        self.calls = WaitingCalls(publish, timeout, QUESTIONS, waits)

    def keep(self, stored: StoredCall) -> None:
        """Add a question of an earlier attempt."""
        self._asked[stored.call_id] = asked_by(stored)
        self.calls.keep(stored)

    async def ask(
        self,
        questions: Sequence[QuestionItem],
        *,
        source: str,
        tool_call_id: str | None = None,
        check: Check | None = None,
    ) -> Resolution[QuestionReply]:
        """Ask, and wait for the reply. Raises what the event log raises."""

        async def check_reply(reply: QuestionReply) -> None:
            if check is not None and reply.answers is not None:
                await check(reply.answers)

        request_id = str(new_uuid())
        self._asked[request_id] = questions
        return await self.calls.wait(
            request_id,
            lambda expires_at: QuestionAsked(
                request_id=request_id,
                source=source,
                questions=tuple(questions),
                expires_at=expires_at,
                tool_call_id=tool_call_id,
            ),
            check=check_reply,
            tool_call_id=tool_call_id,
        )

    async def answer(self, request_id: str, posted: PostedAnswers | None) -> None:
        """Answer a question, or with None decline to; the same answer twice counts once.

        Raises `QuestionNotFound`, `QuestionAnswered`, and `Invalid` for answers with which it keeps waiting.
        """
        if (questions := self._asked.get(request_id)) is None:
            raise QuestionNotFound
        await self.calls.answer(request_id, reply_to(questions, posted))


def asked_by(stored: StoredCall) -> Sequence[QuestionItem]:
    return QuestionAsked.model_validate(stored.request, extra="ignore").questions


def reply_to(questions: Sequence[QuestionItem], posted: PostedAnswers | None) -> QuestionReply:
    """What was posted, as the reply to these questions; raises `Invalid`."""
    return QuestionReply(None if posted is None else given_answers(questions, posted))


def given_answers(questions: Sequence[QuestionItem], posted: PostedAnswers) -> GivenAnswers:
    """The answers in the order of the questions; raises `Invalid` naming each that is wrong."""
    by_text = {question.question: str(place) for place, question in enumerate(questions)}
    given = {by_text.get(key, key): answer for key, answer in posted.items()}
    if len(given) < len(posted):
        raise Invalid.field("answers", "answers a question twice")
    places = [str(place) for place in range(len(questions))]
    faults = [
        FieldError(f"answers.{key[:_MAX_KEY_CHARS]}", "is not a question of this request")
        for key in given
        if key not in places
    ]
    for place, question in zip(places, questions, strict=True):
        if (fault := _fault(question, given.get(place))) is not None:
            faults.append(FieldError(f"answers.{place}", fault))
    if faults:
        raise Invalid(f"{faults[0].field}: {faults[0].message}", errors=faults)
    return tuple(_texts(given[place]) if place in given else None for place in places)


def _texts(answer: str | list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(map(storable, [answer] if isinstance(answer, str) else answer)))


def _fault(question: QuestionItem, answer: str | list[str] | None) -> str | None:
    if answer is None:
        return None if question.optional else "is required: it answers a question"
    texts = _texts(answer)
    if not question.multi_select and not isinstance(answer, str):
        return "must be one text: the question takes one answer"
    if any(map(is_blank, texts)):
        return BLANK
    if any(len(text) > MAX_ANSWER_CHARS for text in texts):
        return f"must have at most {MAX_ANSWER_CHARS} characters"
    labels = {option.label for option in question.options}
    if question.only_options and not labels.issuperset(texts):
        return "must be one of the options, by its label"
    return None


def _resolved_event(request_id: str, resolution: Resolution[QuestionReply]) -> QuestionResolved:
    if (reply := resolution.answer) is None:
        reason = "expired" if resolution.reason == "expired" else "run_stopped"
        return QuestionResolved(request_id=request_id, resolved_by=reason)
    if reply.answers is None:
        return QuestionResolved(request_id=request_id, resolved_by="declined")
    return QuestionResolved(request_id=request_id, resolved_by="answered", answers=reply.answers)


QUESTIONS: Final = CallKind(
    "question",
    TypeAdapter(QuestionReply),
    unknown=QuestionNotFound,
    answered=QuestionAnswered,
    resolved_event=_resolved_event,
)
