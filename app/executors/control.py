"""RunControl: the requests of clients to a running run, which its executor executes."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import structlog

from app.errors import AppError
from app.events import (
    Interrupted,
    OutputEvent,
    RunWarning,
    Status,
    StopKind,
    StopState,
    ToolCallResult,
    ToolCallStart,
)
from app.executors.approvals import Approvals, Permissions
from app.executors.client_calls import ClientToolCalls
from app.executors.evidence import AddEvidence, keep_none
from app.executors.inbox import MessageInbox, MessageLimits, RunEnded
from app.executors.waiting.budget import Budget
from app.executors.waiting.calls import Publish
from app.executors.waiting.port import StoredCall, UnstoredWaits, Waits
from app.executors.waiting.questions import Questions
from app.executors.waiting.records import Decision
from app.platform.background import first_of
from app.requests.messages import SentMessage

log = structlog.get_logger(__name__)


_NO_RULES = Permissions()


class RunControl:
    """The stop requests, messages and decisions of one run; only used on the loop that executes it."""

    def __init__(
        self,
        publish: Publish,
        *,
        permissions: Permissions = _NO_RULES,
        client_tool_timeout: timedelta = timedelta(),
        question_timeout: timedelta = timedelta(),
        limits: MessageLimits | None = None,
        waits: Waits | None = None,
        add_evidence: AddEvidence = keep_none,
    ) -> None:
        """`publish` appends an event to the run's log; `waits` stores its calls that wait."""
        self._publish = publish
        self.waits: Waits = waits or UnstoredWaits()
        self.approvals = Approvals(publish, permissions, self.waits, add_evidence=add_evidence)
        self.client_calls = ClientToolCalls(publish, self.waits, timeout=client_tool_timeout)
        self.questions = Questions(publish, self.waits, timeout=question_timeout)
        self.budget = Budget(publish, self.waits, timeout=permissions.timeout)
        self._waiting = (
            *(self.client_calls.calls, self.approvals.calls),
            *(self.questions.calls, self.budget.calls),
        )
        self.can_park = False
        """Whether the executor stops for `parking`, and its next attempt goes on with the calls that wait."""
        self.parking = asyncio.Event()
        """Set when the executor must stop and raise `RunParked`; no command is applied any more."""
        self.closing = asyncio.Event()
        """Set when the run may not be kept open for messages any longer, because its process stops."""
        self.parked_calls: list[str] = []
        """The ids of the calls that wait, once it is parking."""
        self._executing: set[str] = set()
        """The ids of calls that tools are executing, including those that wait."""
        self.inbox = MessageInbox(limits)
        self.stop = asyncio.Event()
        """Set when the run must end: interrupt, read to the end, return."""
        self.stop_turn = asyncio.Event()
        """Set when the current turn must end; the run continues with messages that wait."""
        self._tools_at_work: set[str] = set()
        """The ids of calls whose results are not published yet."""
        self._stopped_after_tool: asyncio.Event | None = None
        """Of a turn that is to stop once its tools have finished: set when it has been stopped."""
        self._requested: StopKind | None = None
        self._state: StopState | None = None
        self._publishing: set[asyncio.Task[None]] = set()
        self.has_ended = False
        """Whether the executor has returned; the run is about to be stored."""
        self.is_handed_over = False
        """Whether this process stops, and another one executes the run's next attempt."""

    def send(self, sent: SentMessage) -> None:
        """Queue a message for the agent; raises `RunEnded`, `MessageQueueFull`.

        A repeated message changes nothing, also if the run is being stopped by then.
        """
        if self.stop.is_set() and sent.message_id not in self.inbox:
            raise RunEnded
        self.inbox.put(sent)

    async def interrupt(self, *, after_tool: bool = False) -> None:
        """Stop the current turn; before an agent is running, stop the run.

        `after_tool`: tools that are at work may finish first; one that waits for a person is not.
        """
        waits_for_person = any(each.is_waiting for each in self._waiting)
        if after_tool and self._tools_at_work and not waits_for_person:
            self._stopped_after_tool = self._stopped_after_tool or asyncio.Event()
        else:
            (self.stop_turn if self.inbox.is_open else self.stop).set()
        await self._published(self._request("interrupt"))

    def observe(self, event: OutputEvent) -> None:
        """Gets each event of the agent before it is published."""
        if isinstance(event, ToolCallStart):
            self._tools_at_work.add(event.tool_call_id)
        elif isinstance(event, ToolCallResult):
            self._tools_at_work.discard(event.tool_call_id)

    @contextmanager
    def executing(self, tool_call_id: str) -> Iterator[None]:
        """While the body runs, a tool executes this call: the run is not parked unless it waits."""
        self._executing.add(tool_call_id)
        try:
            yield
        finally:
            self._executing.discard(tool_call_id)

    def keep(self, stored: Sequence[StoredCall]) -> None:
        """Add the calls of earlier attempts: those that were parked have been published, and go on."""
        for each in stored:
            is_tool_call = each.kind != "budget" and each.tool_call_id is not None
            if each.is_parked and is_tool_call:
                self._tools_at_work.add(str(each.tool_call_id))
            match each.kind:
                case "budget":
                    self.budget.calls.keep(each)
                case "permission":
                    self.approvals.calls.keep(each)
                case "question":
                    self.questions.keep(each)
                case "client_tool":
                    self.client_calls.calls.keep(each)

    @property
    def may_park(self) -> bool:
        """Whether all that the run does is to wait for answers, and another attempt can go on with them."""
        if not self.can_park or self.parking.is_set() or self.stop.is_set() or self._requested is not None:
            return False
        waiting = set[str]().union(*(each.waiting_tool_calls for each in self._waiting))
        return bool(waiting) and self._executing <= waiting

    async def decide(self, request_id: str, decision: Decision) -> None:
        """Decide about a tool call that waits for approval, or about a budget; see `Approvals.decide`."""
        if self.budget.calls.request(request_id):
            await self.budget.calls.answer(request_id, decision)
        else:
            await self.approvals.decide(request_id, decision)

    def park(self) -> None:
        """Let the executor stop; see `may_park`."""
        self.parked_calls = [call_id for waiting in self._waiting for call_id in waiting.park()]
        self.parking.set()

    async def keep_open(self, keep_open: timedelta, ended: asyncio.Event) -> None:
        """Wait for another message to a run that has answered all; also returns once it has `ended`.

        The caller looks for messages before and after, without waiting in between.
        """
        if not keep_open or self.closing.is_set():
            return
        self.inbox.arrived.clear()
        await self._publish(Status(phase="waiting", label="Open for messages"))
        waits = (self.inbox.arrived.wait(), self.closing.wait(), ended.wait())
        await first_of(*waits, timeout_s=keep_open.total_seconds())

    async def stops_before_call(self) -> bool:
        """Whether the model may not be called, because the turn was to stop after its tools.

        Then it has been stopped when this returns: the agent waits for the model meanwhile.
        """
        if (stopped := self._stopped_after_tool) is None:
            return False
        self.stop_turn.set()
        await stopped.wait()
        return True

    async def cancel(self) -> None:
        """Stop the run."""
        self.stop.set()
        await self._published(self._request("cancel"))

    def cancel_stored(self) -> None:
        """Stop the run, which is stored as cancelled: its readers get to know it later."""
        self.stop.set()
        self._request("cancel")

    async def acknowledge(self) -> None:
        """The agent has received the request to stop."""
        if self._state == "requested":
            await self._published(self._advance("acknowledged"))

    async def mark_stopped(self) -> None:
        """The agent has stopped; a later request to stop starts anew."""
        kind = self._requested
        await self.acknowledge()
        self.stop_turn.clear()
        if self._stopped_after_tool is not None:
            self._stopped_after_tool.set()
            self._stopped_after_tool = None
        # A cancel may have been requested meanwhile, and is still pending.
        if kind is not None and self._requested == kind:
            await self._published(self._advance("stopped"))

    async def end(self, *, is_parked: bool = False) -> None:
        """The attempt is over: release senders, publish the remaining events, deny tool calls that wait.

        `is_parked`: those are left to the next attempt.
        """
        self.has_ended = True
        if (lost := self.inbox.pending()) and not (is_parked or self.is_handed_over):
            await self._publish_state(_not_delivered(lost))
        self.inbox.close()
        for waiting in self._waiting:
            await waiting.end(is_parked=is_parked)
        await self.mark_stopped()
        # No event may be published after this.
        if self._publishing:
            await asyncio.wait(self._publishing)

    def _request(self, kind: StopKind) -> "asyncio.Task[None] | None":
        # A repeated request changes nothing, except a cancel after an interrupt.
        if not self.has_ended and self._requested not in {kind, "cancel"}:
            self._requested = kind
            return self._advance("requested")
        return None

    def _advance(self, state: StopState) -> "asyncio.Task[None] | None":
        kind, self._state = self._requested, state
        if kind is None:
            return None
        if state == "stopped":
            # Before the event is published: a request during that is a new one.
            self._requested = self._state = None
        publishing = asyncio.create_task(self._publish_state(Interrupted(kind=kind, state=state)))
        self._publishing.add(publishing)
        publishing.add_done_callback(self._publishing.discard)
        return publishing

    async def _published(self, publishing: "asyncio.Task[None] | None") -> None:
        if publishing is not None:
            # The caller may be cancelled before the event is published.
            await asyncio.shield(publishing)

    async def _publish_state(self, event: Interrupted | RunWarning) -> None:
        try:
            await self._publish(event)
        except AppError as error:
            # The request counts, whether or not readers see it.
            log.warning("run.notice_not_published", type=event.type, reason=error.detail)
        except Exception:
            # Perhaps nothing waits for it.
            log.exception("run.notice_failed", type=event.type)


def _not_delivered(messages: Sequence[SentMessage]) -> RunWarning:
    text = "The agent has not got these messages; send them with the next run."
    return RunWarning(
        code="messages_not_delivered", message=text, names=[each.message_id for each in messages]
    )
