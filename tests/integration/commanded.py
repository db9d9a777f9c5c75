"""Runs that do what commands let them do, in one of several processes with one relay."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, field_validator

from app.executors.control import RunControl
from app.executors.inbox import MessageLimits
from app.executors.port import ABORTED, ExecutionFailed, RunContext
from app.graphs.spec import GraphSpec
from app.ids import RunKey, new_uuid
from app.platform.background import first_of
from app.platform.db import Database
from app.platform.server.memory import MemoryCeiling
from app.requests.messages import SentMessage
from app.requests.run_request import GraphRunRequest
from app.runs.commands.service import WITHIN_S
from app.runs.records import RunRecord
from app.streams.port import EventLog
from app.tools.policy import ToolCallDenied
from runtally.tools.tool import ToolContext, ToolOutput, tool
from tests.contracts.event_logs import a_relay
from tests.e2e.stories import until
from tests.factories import a_plan
from tests.integration.run_process import REQUEST, Process, a_process, a_run_elsewhere, record_of
from tests.patience import PATIENCE_S

COMMANDED = GraphSpec(
    name="planner",
    description="d",
    system_prompt="p",
    approve=("external_side_effect",),
    approval_timeout_s=60,
    permission_modes=("plan", "bypassPermissions"),
)


class Mail(BaseModel):
    """The arguments of a tool."""

    text: str = ""

    @field_validator("text")
    @classmethod
    def _is_polite(cls, text: str) -> str:
        if "rude" in text:
            message = "is rude"
            raise ValueError(message)
        return text


class Sent(BaseModel):
    """The result of a tool."""


@tool(id="test__mail", description="Sends.", effect="external_side_effect", redact=())
async def send_mail(_args: Mail, _context: ToolContext) -> ToolOutput[Sent]:
    """Send a mail."""
    return ToolOutput(markdown="sent", structured=Sent())


@dataclass
class Agent:
    """An executor: it takes messages, is interrupted, and calls a tool that needs approval."""

    takes_messages: asyncio.Event = field(default_factory=asyncio.Event)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    controls: list[RunControl] = field(default_factory=list)
    messages: list[SentMessage] = field(default_factory=list)
    interrupts: int = 0
    called_with: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.takes_messages.set()

    @property
    def control(self) -> RunControl:
        """Of the latest run."""
        return self.controls[-1]

    async def run(self, _request: GraphRunRequest, context: RunContext) -> None:
        """Until it is stopped."""
        control = context.control
        inbox: asyncio.Queue[SentMessage] = asyncio.Queue()
        with control.inbox.forwarding_to(inbox.put_nowait):
            self.controls.append(control)
            self.started.set()
            await first_of(
                control.stop.wait(),
                self._take_messages(control, inbox),
                self._be_interrupted(control),
                self._call(context),
            )
        raise ExecutionFailed(*ABORTED)

    async def _take_messages(self, control: RunControl, inbox: "asyncio.Queue[SentMessage]") -> None:
        while True:
            sent = await inbox.get()
            self.messages.append(sent)
            await self.takes_messages.wait()
            control.inbox.mark_delivered(sent.message_id, len(self.messages))

    async def _be_interrupted(self, control: RunControl) -> None:
        while True:
            await control.stop_turn.wait()
            self.interrupts += 1
            await control.acknowledge()
            await control.mark_stopped()

    async def _call(self, context: RunContext) -> None:
        tool_context = ToolContext(run=context.plan.run, tool_call_id="call", request_id=None)
        with suppress(ToolCallDenied):
            args = await context.control.approvals.review(send_mail, {}, tool_context)
            self.called_with.append(args)
        await asyncio.Event().wait()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two processes; the other one executes the run."""

    here: Process
    there: Process
    run: RunKey
    agent: Agent

    async def request_id(self) -> str:
        """Of the tool call that waits for a decision."""
        pending = self.agent.control.approvals.calls._calls
        await until(lambda: bool(pending))
        return next(iter(pending))


def start(process: Process, run: RunKey, *, attempt: int = 0) -> None:
    """Execute a run."""
    process.supervisor.start(a_plan(run=run, spec=COMMANDED, attempt=attempt), REQUEST)


@asynccontextmanager
async def a_pair(
    database: Database,
    directory: Path,
    url: str,
    *,
    within_s: float = WITHIN_S,
    limits: MessageLimits | None = None,
    log: EventLog | None = None,
    memory: MemoryCeiling | None = None,
) -> AsyncIterator[Pair]:
    """The run has begun; it is stopped at the end. `log`, `memory`: those of the other process."""
    agent, there_id = Agent(), new_uuid()
    run = await a_run_elsewhere(database, process_id=there_id)
    async with AsyncExitStack() as stack:
        relays = [await stack.enter_async_context(a_relay(url, timeout_s=2)) for _ in range(2)]
        here = await stack.enter_async_context(
            a_process(database, directory / "here", relay=relays[0], within_s=within_s, limits=limits)
        )
        there = await stack.enter_async_context(
            a_process(
                database,
                directory / "there",
                executor=agent,
                process_id=there_id,
                relay=relays[1],
                log=log,
                memory=memory,
            )
        )
        start(there, run)
        async with asyncio.timeout(PATIENCE_S):
            await agent.started.wait()
            await until_connected(here, there)
        try:
            yield Pair(here, there, run, agent)
        finally:
            there.supervisor.stop()
            await there.supervisor.wait_idle(within_s=PATIENCE_S)


async def until_connected(here: Process, there: Process) -> None:
    """Until requests arrive."""
    assert here.channel is not None
    assert there.channel is not None
    there.channel.serve({"ping": _pong})
    while True:
        try:
            await here.channel.request(there.process_id, "ping", {}, timeout_s=0.5)
        except Exception:  # noqa: BLE001 - whatever it is, the next attempt may succeed
            await asyncio.sleep(0.02)
        else:
            return


async def ended(database: Database, run: RunKey) -> RunRecord:
    """The run, once it has ended."""
    async with asyncio.timeout(PATIENCE_S):
        while not (record := await record_of(database, run)).finished:
            await asyncio.sleep(0.01)
    return record


async def _pong(_payload: dict[str, object]) -> dict[str, object]:
    return {}
