"""ExternalExecutor: a run whose agent is a client's own program; it lasts as long as that calls the model."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from app.events import AssistantFinal, UsageReport
from app.executors.external.session import ExternalSession
from app.executors.metering import Metering, channel_limits, usage_fact
from app.executors.port import ABORTED, ExecutionFailed, RunContext
from app.gateway.answer_usage import MessageUsage
from app.gateway.channel import Channel
from app.gateway.proxy import Gateway
from app.ids import MessageId, RunKey
from app.platform.background import first_of, run_to_completion
from app.requests.run_request import GraphRunRequest
from app.usage.records import ExecutorType, UsageFact

PROVIDER: Final = "external"
"""The first half of the graph ids of this executor."""

EXECUTOR_TYPE: Final[ExecutorType] = "external"

SETTLE_S: Final = 1.0
"""After so long without a call credit is released: an agent usually makes the next one at once."""


@dataclass(frozen=True, slots=True)
class ExternalExecutor:
    """Implements the `GraphExecutor` port."""

    gateway: Gateway
    metering: Metering
    idle_s: float
    """After so long without a call a run ends."""
    _expected: dict[RunKey, ExternalSession] = field(default_factory=dict, init=False)

    def expect(self, run: RunKey) -> ExternalSession:
        session = self._expected[run] = ExternalSession()
        return session

    def forget(self, run: RunKey) -> None:
        """The run has not started."""
        self._expected.pop(run, None)

    async def run(
        self,
        request: GraphRunRequest,  # noqa: ARG002
        context: RunContext,
    ) -> None:
        """See the port. It ends without an answer in words: its client has those of the model."""
        session = self._expected.pop(context.plan.run)
        channel = self._open_channel(context)
        session.open(channel)
        sitting = _Sitting(session, context, channel, self.idle_s, channel.limits.deadline)
        try:
            await sitting.last()
        finally:
            session.close()
            # Billing ends the run once this returns.
            await run_to_completion(self._close(sitting))
        if context.control.stop.is_set():
            raise ExecutionFailed(*ABORTED)
        await context.events.publish(AssistantFinal(content=""))

    def _open_channel(self, context: RunContext) -> Channel:
        plan = context.plan
        hooks = self.metering.hooks_for(
            plan, executor_type=EXECUTOR_TYPE, trace=context.trace, add_evidence=context.add_evidence
        )
        return self.gateway.open_channel(plan.run.run_id, channel_limits(plan, of_client=True), hooks)

    async def _close(self, sitting: "_Sitting") -> None:
        await self.gateway.close_channel(sitting.channel)
        await sitting.report(ended=True)


@dataclass(slots=True)
class _Sitting:
    """One execution of a session."""

    session: ExternalSession
    context: RunContext
    channel: Channel
    idle_s: float
    over_at: float
    """When (loop time) it takes no more calls."""
    _reported: dict[MessageId, MessageUsage] = field(default_factory=dict)
    _settled_for: float = field(init=False)
    """The last use of the session (loop time) after which credit was released."""
    _tried_at: float = 0.0
    """When (loop time) it was last tried to release credit."""

    def __post_init__(self) -> None:
        """Nothing is reserved yet."""
        self._settled_for = self.session.used_at

    async def last(self) -> None:
        """Return when the client makes no more calls, or the run is stopped."""
        session, control = self.session, self.context.control
        while True:
            session.changed.clear()
            await self.report()
            if control.closing.is_set() or self._has_passed(self.over_at):
                session.close()
            if control.stop.is_set() or self._has_ended():
                break
            if session.is_idle and not self._is_settled and self._has_passed(self._settle_at):
                await first_of(control.stop.wait(), self._settle())
            else:
                await self._wait()
        await control.acknowledge()

    async def report(self, *, ended: bool = False) -> None:
        """Bill the messages that are complete; all of them once no call is being made or can go on."""
        for fact in list(self._new_facts(ended=ended)):
            await self.context.events.publish(UsageReport(fact))
        if not self.session.calls:
            # Corrections arrive before their call ends.
            for message_id, reported in self._reported.items():
                if self.channel.messages.get(message_id) == reported:
                    del self.channel.messages[message_id]
            self._reported.clear()

    def _new_facts(self, *, ended: bool) -> Iterator[UsageFact]:
        for message_id, message in self.channel.messages.items():
            is_final = message.complete or ended or not self.session.calls
            if is_final and self._reported.get(message_id) != message:
                self._reported[message_id] = message
                yield usage_fact(message, self.context.plan, executor_type=EXECUTOR_TYPE)

    @property
    def _is_settled(self) -> bool:
        """Whether no credit is reserved for calls that have ended."""
        return self._settled_for >= self.session.used_at

    @property
    def _settle_at(self) -> float:
        return max(self.session.used_at, self._tried_at) + SETTLE_S

    async def _settle(self) -> None:
        used_at = self.session.used_at
        self._tried_at = asyncio.get_running_loop().time()
        if await self.channel.release_credit():
            self._settled_for = used_at

    def _has_ended(self) -> bool:
        return not self.session.calls and (
            self.session.is_over or self._has_passed(self.session.used_at + self.idle_s)
        )

    async def _wait(self) -> None:
        control = self.context.control
        closing = () if control.closing.is_set() else (control.closing.wait(),)
        waits = (self.session.changed.wait(), control.stop.wait(), *closing)
        await first_of(*waits, timeout_s=self._longest_wait_s())

    def _longest_wait_s(self) -> float | None:
        if self.session.is_over:
            return None
        at = self.over_at
        if not self.session.calls:
            idle_at = self.session.used_at + self.idle_s
            at = min(at, idle_at if self._is_settled else self._settle_at)
        return max(0.0, at - asyncio.get_running_loop().time())

    @staticmethod
    def _has_passed(moment: float) -> bool:
        return asyncio.get_running_loop().time() >= moment
