"""Elicitation: what an MCP server asks during a call, as questions to a person, and its answers.

The library asks by the same callback in both generations of the protocol: for requests of the server, and
for results that require input, after which it makes the call again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

import structlog
from mcp import types

from app.errors import Invalid
from app.events import GivenAnswers, QuestionItem
from app.platform.json_schema.checker import SchemaChecker, ValueUncheckable
from app.platform.json_schema.document import SchemaUnusable
from app.tools.mcp.asking.forms import Form, FormUnusable, form_of
from app.tools.modern_schema import modern_schema
from runtally.tools.tool import ReportProgress

log = structlog.get_logger(__name__)

_MOST_OPEN = 4
"""How many questions of one server wait at the same time; it gets no answer to more."""

Refusal: TypeAlias = Literal["decline", "cancel"]
"""Why there are no answers, as the protocol has it: a person declines to give any, or gave none in time."""


class AskPerson(Protocol):
    """Asks a person."""

    async def __call__(
        self,
        questions: Sequence[QuestionItem],
        *,
        source: str,
        check: Callable[[GivenAnswers], Awaitable[object]],
    ) -> GivenAnswers | Refusal:
        """The answers; `check` raises `Invalid` for those that the server would not take."""


@dataclass(frozen=True, slots=True)
class Person:
    """The person behind a run, who answers within `timeout_s`."""

    ask: AskPerson
    timeout_s: float


@dataclass(slots=True)
class Elicitation:
    """The questions of one server during a run."""

    server: str
    person: Person
    schemas: SchemaChecker
    silence_s: float
    """How long a call may take without progress."""
    _calls: list[ReportProgress] = field(default_factory=list)
    _open: int = 0

    @contextmanager
    def during_call(self, report_progress: ReportProgress) -> Iterator[None]:
        """While the body runs, a call is made, whose time does not end while a person is asked."""
        self._calls.append(report_progress)
        try:
            yield
        finally:
            self._calls.remove(report_progress)

    async def answer(
        self,
        context: object,  # noqa: ARG002 - the library names it
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult:
        """Ask a person what the server asks; the library's callback."""
        try:
            return await self._ask(self._form(params))
        except (FormUnusable, SchemaUnusable) as error:
            log.warning("mcp_server.question_declined", server=self.server, reason=str(error))
            return types.ElicitResult(action="decline")

    def _form(self, params: types.ElicitRequestParams) -> Form:
        if not isinstance(params, types.ElicitRequestFormParams):
            raise FormUnusable("it refers to a web page")
        if self._open >= _MOST_OPEN:
            raise FormUnusable("too many others wait")
        return form_of(params.message, params.requested_schema)

    async def _ask(self, form: Form) -> types.ElicitResult:
        owner = f"mcp:{self.server}"
        document = await self.schemas.require_usable(modern_schema(form.schema), owner=owner)

        async def check(answers: GivenAnswers) -> None:
            try:
                mismatch = await self.schemas.mismatch(document, form.content(answers), owner=owner)
            except (SchemaUnusable, ValueUncheckable) as error:
                raise Invalid.field("answers", "cannot be checked") from error
            if mismatch is not None:
                raise Invalid.field(form.field_of(mismatch.path), mismatch.reason)

        self._open += 1
        waiting = asyncio.create_task(self._extend_calls())
        try:
            answers = await self.person.ask(form.questions, source=self.server, check=check)
        finally:
            self._open -= 1
            waiting.cancel()
        if not isinstance(answers, tuple):
            return types.ElicitResult(action=answers)
        if form.is_refused_by(answers):
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content=form.content(answers))

    async def _extend_calls(self) -> None:
        """Any call may be the one that asks: the protocol does not say which one."""
        while True:
            for report_progress in list(self._calls):
                await report_progress(f"{self.server} waits for an answer")
            await asyncio.sleep(self.silence_s / 3)
