"""OpenCalls: makes the tool calls with which a run was parked, before a CLI goes on with their results.

The transcript ends with the message that has the calls. Those that its CLI had not begun are made as well.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import anyio

from app.conversations.neutral_transcript import tool_result
from app.conversations.records import TranscriptEntry
from app.conversations.transcript_store import TranscriptStore
from app.events import MeterReport
from app.executors.api_format.tool_content import ModelToolCall
from app.executors.claude_agent.run_stream import steps_of
from app.executors.claude_agent.tools.names import STRUCTURED_OUTPUT, tool_id_of
from app.executors.claude_agent.transcripts.lines import chained_lines, open_calls, result_lines
from app.executors.deadline import RunDeadline
from app.executors.port import ABORTED, ExecutionFailed, RunContext, RunParked, RunPlan
from app.executors.tools.calls import ToolCalls
from app.executors.tools.turn import ToolTurn
from app.gateway.channel import Channel
from app.platform.background import first_of
from app.storable import storable
from app.usage.records import Meters

_NOT_TAKEN = "This answer was not taken: another call of its message waited. Answer again."


def parked(plan: RunPlan, lines: Sequence[dict[str, Any]], *, steps: int) -> RunParked:
    """What ends an attempt whose CLI had written these lines; those of a conversation are stored with it."""
    return RunParked({"steps": steps, "lines": [] if plan.conversation is not None else list(lines)})


@dataclass(frozen=True, slots=True)
class OpenCalls:
    """Reads and completes transcripts."""

    store: TranscriptStore

    async def make(self, context: RunContext, channel: Channel) -> list[TranscriptEntry]:
        """Make the calls; returns the transcript of the run with their results.

        Raises `ExecutionFailed` if the run is stopped before, and `RunParked` if it is parked again.
        """
        plan, control = context.plan, context.control
        entries = await self._entries(plan)
        lines = chained_lines(entries, plan.run.run_id)
        calls = ToolCalls(plan)
        calls.attach_run(context, channel)
        turn, deadline = ToolTurn(calls, context.events), RunDeadline(control, plan.timeout)
        uses = _resumed(turn, open_calls(lines))
        await control.waits.resume()
        making = asyncio.create_task(turn.run(uses))
        control.can_park = True
        try:
            await first_of(making, deadline.next_stop(), control.parking.wait())
        finally:
            making.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({making})
                is_done = not making.cancelled() and making.exception() is None
                results = making.result() if is_done else turn.finished
                entries += await self._add(plan, list(result_lines(lines, results)))
                await context.events.publish(MeterReport(Meters(0, 0, 0), tool_failures=turn.failures))
        if control.parking.is_set():
            raise parked(plan, [entry.line for entry in entries], steps=steps_of(plan))
        if making.cancelled():
            await asyncio.gather(turn.publish_unfinished(), control.acknowledge())
            raise ExecutionFailed(*(deadline.outcome or ABORTED))
        making.result()
        return entries

    async def _entries(self, plan: RunPlan) -> list[TranscriptEntry]:
        if plan.conversation is not None:
            return list(await self.store.entries(plan.conversation.transcript))
        lines = () if plan.parked is None else plan.parked["lines"]
        return [TranscriptEntry(line, plan.run.run_id) for line in lines]

    async def _add(self, plan: RunPlan, lines: Sequence[dict[str, Any]]) -> list[TranscriptEntry]:
        entries = [TranscriptEntry(line, plan.run.run_id, plan.attempt) for line in lines]
        if plan.conversation is not None and entries:
            await self.store.add(plan.conversation.transcript, entries)
        return entries


def _resumed(turn: ToolTurn, uses: Sequence[dict[str, Any]]) -> list[ModelToolCall]:
    """The calls to make; the CLI's tool for answers has a result already."""
    answers = [use["id"] for use in uses if use["name"] == STRUCTURED_OUTPUT]
    calls = [
        ModelToolCall(use["id"], tool_id_of(use["name"]), storable(use["input"]))
        for use in uses
        if use["id"] not in answers
    ]
    content = [{"type": "text", "text": _NOT_TAKEN}]
    turn.resume([tool_result(call_id, content, is_error=True) for call_id in answers], calls)
    return calls
