"""Questions of MCP servers during a call, in both generations of the protocol and over each transport."""

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from mcp.server.sse import SseServerTransport

from app.errors import Invalid
from app.events import GivenAnswers, QuestionItem
from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback
from app.tools.mcp.asking.elicitation import AskPerson, Person, Refusal
from app.tools.mcp.servers import McpConnector
from app.tools.mcp.spec import AnyServer, HttpServer, SseServer, StdioServer
from app.tools.policy import ToolPolicy
from app.tools.runner import ToolRunner
from runtally.tools.result import ToolResult
from runtally.tools.tool import ReportProgress, ToolContext
from tests.integration.asking_server import a_server, serve, served
from tests.patience import PATIENCE_S

ROOT = str(Path(__file__).parents[2])
TOOLS = {"book": "read_only", "pay": "read_only"}
RUN = RunKey(AccountId(new_uuid()), RunId("run"))
ANSWERS: GivenAnswers = (("3",), ("No meal",), ("Yes",), None)
REPORTS = 4
"""So many thirds of the time limit are more than it."""
BOOKED = "accept [('meal', 'none'), ('seats', 3), ('window', True)]"


@dataclass
class Somebody:
    """A person who gives these answers, one after the other until the server takes them."""

    answers: list[GivenAnswers | Refusal]
    asked: list[tuple[str, Sequence[QuestionItem]]] = field(default_factory=list)
    refused: list[Any] = field(default_factory=list)

    async def __call__(
        self, questions: Sequence[QuestionItem], *, source: str, check: Any
    ) -> GivenAnswers | Refusal:
        """See `AskPerson`."""
        self.asked.append((source, questions))
        while True:
            answer = self.answers.pop(0)
            try:
                if isinstance(answer, tuple):
                    await check(answer)
            except Invalid as error:
                self.refused.append(error.errors[0].field)
                continue
            return answer


@asynccontextmanager
async def serving(kind: str) -> AsyncIterator[AnyServer]:
    """Where a server of this kind is found."""
    transport, _, generation = kind.partition(" ")
    if transport == "stdio":
        command = [sys.executable, "-m", "tests.integration.asking_server", generation]
        yield StdioServer(type="stdio", command=command, env={"PYTHONPATH": ROOT}, tools=TOOLS)
    elif transport == "http":
        async with served(legacy=generation == "legacy") as url:
            yield HttpServer(type="http", url=url, tools=TOOLS)
    else:
        sse = SseServerTransport("/messages/")

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["path"].startswith("/messages/"):
                await sse.handle_post_message(scope, receive, send)
                return
            async with sse.connect_sse(scope, receive, send) as (reading, writing):
                await serve(a_server(), reading, writing, legacy=True)

        async with serve_on_loopback(answer) as url:
            yield SseServer(type="sse", url=f"{url}/sse", tools=TOOLS)


async def called(
    schemas: SchemaChecker,
    spec: AnyServer,
    tool: str,
    somebody: AskPerson | None,
    report_progress: ReportProgress | None = None,
) -> ToolResult:
    """What the model gets."""
    wanted = [f"desk__{name}" for name in TOOLS]
    context = ToolContext(run=RUN, tool_call_id="call")
    if report_progress is not None:
        context = replace(context, report_progress=report_progress)
    person = None if somebody is None else Person(somebody, timeout_s=60)
    connections = await McpConnector({}, schemas).connect({"desk": spec}, wanted, person=person)
    try:
        tools = {tool.id: tool for tool in connections.tools}
        runner = ToolRunner(tools, ToolPolicy(frozenset(tools)))
        return await runner.run(f"desk__{tool}", {}, context)
    finally:
        await connections.aclose()


@pytest.mark.parametrize("kind", ["stdio modern", "stdio legacy", "http modern", "http legacy", "sse legacy"])
async def test_a_form_becomes_questions_and_the_server_gets_the_answers(
    schemas: SchemaChecker, kind: str
) -> None:
    somebody = Somebody([(("9",), *ANSWERS[1:]), (("three",), *ANSWERS[1:]), ANSWERS])
    async with serving(kind) as spec:
        result = await called(schemas, spec, "book", somebody)

    assert (result.is_error, result.markdown) == (False, BOOKED)
    ((source, questions),) = somebody.asked
    assert source == "desk"
    assert [item.question for item in questions] == ["Approve <b>this</b>?", "meal", "Window?", "note"]
    assert [[option.label for option in item.options] for item in questions] == [
        [],
        ["Fish", "No meal"],
        ["Yes", "No"],
        [],
    ]
    assert [item.only_options for item in questions] == [False, True, True, False]
    assert [item.optional for item in questions] == [False, False, False, True]
    assert somebody.refused == ["answers.0", "answers.0"]


@pytest.mark.parametrize("kind", ["http modern", "http legacy", "sse legacy"])
async def test_a_call_may_take_as_long_as_the_person_who_answers(schemas: SchemaChecker, kind: str) -> None:
    """Four reports take longer than a call may take without."""
    reports: list[str] = []
    reported = asyncio.Event()

    async def report_progress(label: str) -> None:
        reports.append(label)
        if len(reports) > REPORTS:
            reported.set()

    async def ask(questions: Sequence[QuestionItem], **_options: Any) -> GivenAnswers:
        assert questions
        async with asyncio.timeout(PATIENCE_S):
            await reported.wait()
        return ANSWERS

    async with serving(kind) as spec:
        patient = spec.model_copy(update={"timeout_s": 3.0, "max_timeout_s": 3.0})
        result = await called(schemas, patient, "book", ask, report_progress)

    assert (result.is_error, result.markdown) == (False, BOOKED)
    assert set(reports) == {"desk waits for an answer"}


@pytest.mark.parametrize("kind", ["http modern", "sse legacy"])
@pytest.mark.parametrize("refusal", ["decline", "cancel"])
async def test_without_answers_the_server_is_told_so(
    schemas: SchemaChecker, kind: str, refusal: Refusal
) -> None:
    async with serving(kind) as spec:
        result = await called(schemas, spec, "book", Somebody([refusal]))

    assert result.markdown == f"{refusal} []"


@pytest.mark.parametrize("kind", ["http modern", "sse legacy"])
async def test_nobody_is_sent_to_a_web_page(schemas: SchemaChecker, kind: str) -> None:
    somebody = Somebody([])
    async with serving(kind) as spec:
        result = await called(schemas, spec, "pay", somebody)

    assert (result.markdown, somebody.asked) == ("decline []", [])


@pytest.mark.parametrize("kind", ["http modern", "sse legacy"])
async def test_a_run_that_asks_nobody_says_so(schemas: SchemaChecker, kind: str) -> None:
    async with serving(kind) as spec:
        result = await called(schemas, spec, "book", None)

    assert result.is_error
    assert "licitation not supported" in result.markdown
