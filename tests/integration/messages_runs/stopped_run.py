"""A run of `messages` that is held at one boundary and stopped there, and what must be true afterwards."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel

from app import events
from app.conversations.records import Conversation
from app.executors.control import RunControl
from app.executors.inbox import RunEnded
from app.executors.messages_api.executor import MessagesExecutor
from app.executors.port import ExecutionFailed, RunContext
from app.executors.waiting.records import Decision, PermissionDecided
from app.graphs.spec import GraphSpec
from app.ids import RunId, RunKey
from app.requests.messages import ContentPart, Message, SentMessage, TextPart
from app.requests.run_request import GraphRunRequest, ResponseFormat
from app.simulator import wire
from app.simulator.script import Answer, ApiRequest, Block, Compaction, Hold, Reply, Text, ToolUse
from app.simulator.server import RecordedMessage
from app.usage.provider import token_usage
from runtally.tools.tool import ToolContext, ToolOutput, tool
from tests.factories import a_plan, asking, schemas_of
from tests.integration.messages_runs.sendable import require_sendable
from tests.patience import PATIENCE_S

Action: TypeAlias = Literal["cancel", "continue", "urgent", "deadline", "shutdown"]

DEADLINE_S = 0.3
MOST_STEPS = 50
"""Of the event loop, until a request to stop has reached every task of a run."""

LATER = SentMessage(
    "3f3cf38e-4b6b-4f0e-a0fa-f0f3bb3c1a11", Message.of(role="user", content="one more"), "later"
)
NOW = SentMessage("5f3cf38e-4b6b-4f0e-a0fa-f0f3bb3c1a11", Message.of(role="user", content="at once"), "now")


ANSWER = ToolUse("StructuredOutput", {"n": 3})


class Place(BaseModel):
    c: str


@tool(id="demo__look", description="Looks.", effect="read_only", redact=("c",))
async def look(args: Place, _context: ToolContext) -> ToolOutput[Place]:
    return ToolOutput(f"Sunny in {args.c}", args)


@tool(id="demo__book", description="Books.", effect="state_change", redact=("c",))
async def book(args: Place, _context: ToolContext) -> ToolOutput[Place]:
    await asyncio.sleep(0)
    return ToolOutput(f"Booked {args.c}", args)


@dataclass(frozen=True, slots=True)
class Story:
    """What the provider answers to a question, until it has nothing left but "Fine."."""

    replies: Sequence[Answer]
    schema: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Boundary:
    """Before an event: of a reply, or of those that the run publishes."""

    reply: int | None
    event: int


@dataclass(slots=True)
class StoppedRun:
    """One run of a story."""

    story: Story
    name: str
    conversation: Conversation
    action: Action | None = None
    boundary: Boundary | None = None
    history: Sequence[Message] = ()
    attached: Sequence[ContentPart] = ()
    published: list[Any] = field(default_factory=list)
    requests: list[ApiRequest] = field(default_factory=list)
    replied: list[Answer] = field(default_factory=list)
    outcome: Any = None
    hold: Hold = field(default_factory=lambda: Hold(0))
    control: RunControl = field(init=False)
    _offered: int = 0

    def __post_init__(self) -> None:
        permissions = asking("state_change", timeout_s=30)
        self.control = RunControl(self.publish, permissions=permissions)
        if self.boundary is not None:
            self.hold = Hold(self.boundary.event)

    @property
    def question(self) -> str:
        return f"question {self.name}"

    def answer(self, request: ApiRequest) -> Answer:
        """The provider's next answer."""
        number = len(self.requests)
        self.requests.append(request)
        answer: Answer = Reply([Text("Fine.") if self.story.schema is None else ANSWER])
        if number < len(self.story.replies) and self._may_get(self.story.replies[number], request):
            answer = self.story.replies[number]
        if isinstance(answer, Reply):
            blocks = [_named(block, self.question) for block in answer.blocks]
            answer = replace(answer, message_id=f"msg_{self.name}_{number}", blocks=blocks)
            if self.boundary is not None and self.boundary.reply == number:
                answer = replace(answer, hold=self.hold)
        self.replied.append(answer)
        return answer

    def _may_get(self, answer: Answer, request: ApiRequest) -> bool:
        """Whether the story still fits: after a stop the requests may be others."""
        is_summary = isinstance(answer, Reply) and any(
            isinstance(block, Compaction) for block in answer.blocks
        )
        return self.boundary is None or not is_summary or "context_management" in request.body

    async def publish(self, event: Any) -> int:
        number, self._offered = self._offered, self._offered + 1
        if self.boundary is not None and self.boundary == Boundary(None, number):
            self.hold.reached.set()
            await self.hold.until.wait()
        self.published.append(event)
        if isinstance(event, events.PermissionRequest):
            with suppress(PermissionDecided):
                await self.control.approvals.decide(event.request_id, Decision("allow"))
        return len(self.published)

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.published if isinstance(event, kind)]

    async def play(self, executor: MessagesExecutor) -> None:
        """Run it, and stop it at the boundary."""
        task = asyncio.create_task(self._execute(executor))
        if self.action is not None:
            await first(task, self.hold.reached.wait())
            await self._act(task)
        await asyncio.wait({task})
        self.outcome = _outcome_of(task)
        async with asyncio.timeout(PATIENCE_S):
            await self.control.end()

    async def _execute(self, executor: MessagesExecutor) -> None:
        spec = GraphSpec(name="planner", description="d", system_prompt="p", show_thinking=True)
        schema = self.story.schema
        planned = a_plan(
            spec=spec,
            tools=(look, book),
            timeout=timedelta(seconds=DEADLINE_S if self.action == "deadline" else 60),
            run=RunKey(self.conversation.account_id, RunId(self.name)),
            conversation=self.conversation,
            schemas=schemas_of(answer=schema),
        )
        text = TextPart(type="text", text=self.question)
        content = [*self.attached, text] if self.attached else self.question
        request = GraphRunRequest.of(
            graph_id=planned.spec.id,
            messages=[*self.history, Message.of(role="user", content=content)],
            response_format=None if schema is None else ResponseFormat.of(type="json_schema", schema_=schema),
        )
        await executor.run(request, RunContext(planned, self.control, self))

    async def _act(self, task: asyncio.Task[None]) -> None:
        acting = asyncio.create_task(self._stop(task))
        if self.action == "deadline":
            await asyncio.wait({task}, timeout=DEADLINE_S)
        else:
            await self._until_applied(task)
        self.hold.until.set()
        await acting

    async def _until_applied(self, task: asyncio.Task[None]) -> None:
        """Let the executor act on the request before the event goes on, as far as it can."""
        for _ in range(MOST_STEPS):
            await asyncio.sleep(0)
            if task.done() or len(self.of(events.Interrupted)) > 1:
                return

    async def _stop(self, task: asyncio.Task[None]) -> None:
        try:
            match self.action:
                case "cancel":
                    await self.control.cancel()
                case "continue":
                    self.control.send(LATER)
                    await self.control.interrupt()
                case "urgent":
                    self.control.send(NOW)
                case "shutdown":
                    task.cancel()
        except RunEnded:
            return


@dataclass(slots=True)
class Provider:
    """The provider of many runs at once: each is known by its question, or its last call or summary."""

    runs: dict[str, StoppedRun] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def __call__(self, request: ApiRequest) -> Answer:
        run = self.runs[_question_of(request)]
        try:
            require_sendable(request.body)
        except AssertionError as error:
            self.faults.append(f"{run.boundary} {run.action} ({run.name}): {error}")
        return run.answer(request)


def _named(block: Block, question: str) -> Block:
    return Compaction(question) if isinstance(block, Compaction) and block.content else block


def _question_of(request: ApiRequest) -> str:
    for block in (block for message in reversed(request.messages) for block in reversed(message["content"])):
        text = block.get("text") or block.get("content")
        if isinstance(text, str) and text.startswith("question "):
            return text
        if block["type"] == "tool_use":
            return f"question {block['id'].split('_')[1]}"
    raise AssertionError(request.body)


async def first(task: asyncio.Task[Any], wait: Any) -> None:
    """Wait for one of both."""
    waiting = asyncio.ensure_future(wait)
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()


def _outcome_of(task: asyncio.Task[None]) -> Any:
    if task.cancelled():
        return "cancelled"
    error = task.exception()
    if isinstance(error, ExecutionFailed):
        return tuple(error.outcome)
    if error is not None:
        raise error
    return None


def boundaries(story: Story, dry: StoppedRun) -> list[Boundary]:
    """Every boundary of a story that was played once without a stop."""
    of_replies = [
        Boundary(number, index)
        for number, reply in enumerate(story.replies)
        if isinstance(reply, Reply)
        for index in range(min(len(wire.events(reply, model="m")), reply.cut_after or 999))
    ]
    return of_replies + [Boundary(None, index) for index in range(len(dry.published))]


def check(run: StoppedRun, sent: Sequence[RecordedMessage]) -> None:
    """What must be true of every run, wherever it was stopped."""
    _check_outcome(run)
    _check_receipts(run, sent)
    started = [event.tool_call_id for event in run.of(events.ToolCallStart)]
    assert len(set(started)) == len(started), "a call was started twice"
    ended = [event.tool_call_id for event in run.of(events.ToolCallResult)]
    if run.action == "shutdown":
        assert set(ended) <= set(started), "a result without a call"
    else:
        assert sorted(ended) == sorted(started), f"calls {started}, results {ended}"
    requested = {event.request_id for event in run.of(events.PermissionRequest)}
    resolved = [event.request_id for event in run.of(events.PermissionResolved)]
    assert sorted(resolved) == sorted(requested), "a request for approval was not resolved once"
    states = [event.state for event in run.of(events.Interrupted)]
    assert states in ([], ["requested", "acknowledged", "stopped"]), states


def _check_outcome(run: StoppedRun) -> None:
    expected: dict[Action | None, Any] = {
        "cancel": ("aborted", "aborted"),
        "deadline": ("timeout", "timeout"),
        "shutdown": "cancelled",
    }
    finals = run.of(events.AssistantFinal)
    wanted = expected.get(run.action)
    if run.outcome is None and wanted is not None:
        # It was over when it was stopped.
        steps = [n for n, event in enumerate(run.published) if isinstance(event, events.Step)]
        assert run.boundary is not None
        assert run.boundary.reply is None
        assert run.boundary.event > steps[-1], "the stop had no effect"
    else:
        assert run.outcome == wanted, run.outcome
    assert len(finals) == (run.outcome is None)
    delivered = [event.message_id for event in run.of(events.UserMessageDelivered)]
    assert len(set(delivered)) == len(delivered), "a message was delivered twice"


def _check_receipts(run: StoppedRun, sent: Sequence[RecordedMessage]) -> None:
    facts = {report.fact.message_id: report.fact for report in run.of(events.UsageReport)}
    assert len(facts) == len(run.of(events.UsageReport)), "reported twice"
    answered = [answer for answer in run.replied if isinstance(answer, Reply)]
    assert len(facts) == len(answered), f"{len(answered)} messages, receipts of {sorted(facts)}"
    by_id = {message.message_id: message for message in sent}
    for message_id, fact in facts.items():
        message = by_id.get(message_id)
        if message is not None and fact.basis == "final":
            assert fact.usage == token_usage(message.final_usage or {}), "other numbers than the wire"
    shown = {event.message_id for event in run.of(events.TextDelta)}
    assert shown <= facts.keys(), "shown and not billed"
    finals = [fact for fact in facts.values() if fact.basis == "final" and fact.origin == "assistant"]
    assert len(run.of(events.Step)) <= len(finals), "a step whose message is not complete"


def history_of(run: StoppedRun) -> list[Message]:
    """The conversation as a chat client knows it, which has what the run published."""
    turns: list[tuple[str, str]] = [("user", run.question)]
    for event in run.published:
        if isinstance(event, events.TextDelta):
            role, text = turns[-1]
            if role == "assistant":
                turns[-1] = (role, text + event.delta)
            else:
                turns.append(("assistant", event.delta))
        elif isinstance(event, events.UserMessageDelivered):
            turns.append(("user", event.content))
    return [Message.of(role=role, content=text) for role, text in turns]
