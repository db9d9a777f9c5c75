"""ModelCalls: one message of the model at a time: streamed, reported, and called again if it broke off."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import structlog

from app.conversations.neutral_transcript import without_open_calls
from app.events import (
    MessageDiscarded,
    OutputEvent,
    Status,
    Step,
    ToolCallResult,
    ToolCallStart,
    UsageReport,
)
from app.executors.api_format.failures import (
    TOO_LONG,
    concerns_attachments,
    failure_of_status,
    outcome_of_refusal,
)
from app.executors.api_format.refused_part import refused_part
from app.executors.api_format.retried import ATTACHMENTS_LEFT_OUT, OTHER_MODEL, retrying
from app.executors.api_format.retry_policy import MAX_RETRIES, is_temporary, pause_s
from app.executors.api_format.sent_attachments import sendable
from app.executors.api_format.stream import DeltaMapper
from app.executors.messages_api.client import CallFailed, MessagesClient, StreamBroken
from app.executors.messages_api.message import MessageFold, MessageMalformed
from app.executors.messages_api.meter import LoopMeter
from app.executors.messages_api.request import (
    COMPACTION_BETA,
    COMPACTS_AT_TOKENS,
    STRUCTURED_OUTPUT,
    AgentRequest,
    end_of_request_before,
)
from app.executors.messages_api.transcript import INTERRUPTED, RunTranscript
from app.executors.port import ExecutionFailed, RunContext
from app.executors.text import loggable
from app.executors.tools.calls import ToolCalls
from app.gateway.channel import Channel
from app.platform.background import run_to_completion
from app.requests.client_tools import shown_name

log = structlog.get_logger(__name__)

MOST_CUTS = 3
"""How many messages of a run may break off; each is billed as far as it arrived."""

CUT_OFF_PROMPT = (
    "Your response above was cut off by a connection failure. Continue exactly where it stopped, without "
    "repeating anything."
)

_NO_END = "the message has no end"
_COMPACTS_SOON = COMPACTS_AT_TOKENS * 3 // 4
_BAD_REQUEST = 400
_REFUSED = {_BAD_REQUEST, 413}
_OVERLOADED = {404, 500, 503, 529}
"""Statuses after which the model's fallback is used."""


@dataclass(slots=True)
class ModelCalls:
    """The calls of one run."""

    context: RunContext
    client: MessagesClient
    channel: Channel
    request: AgentRequest
    transcript: RunTranscript
    tools: ToolCalls
    meter: LoopMeter
    _deltas: DeltaMapper = field(init=False)
    _current: MessageFold | None = None
    """The message that is being read."""
    _last_stop: str | None = None
    """Why the message before ended."""
    _cuts: int = 0
    steps: int = 0
    _prompt_tokens: int = 0
    _may_compact: bool = field(init=False)
    _compacts: bool = False
    """Whether the current request allows a summary."""
    tool_failures: int = 0
    """Of the provider's own tools."""
    _is_summarized: bool = False
    """Whether a summary is all that the model has written since the last one."""
    _leaves_out: bool = False
    """Whether attachments of the conversation are left out."""
    _has_warned: bool = False
    continued_text: str = ""
    """The text of messages that broke off, which the next one continues."""

    def __post_init__(self) -> None:
        plan = self.context.plan
        self._deltas = DeltaMapper(plan.spec.show_thinking, shown_name, STRUCTURED_OUTPUT)
        self._may_compact = plan.conversation is not None

    async def next_message(self) -> MessageFold:
        """Let the model write a message, and add it to the transcript.

        Raises `ExecutionFailed` if there is none.
        """
        retries = 0
        while True:
            # Not within the call, which has a time limit.
            await self.channel.wait_for_budget()
            try:
                message = await self._stream()
            except CallFailed as error:
                if retries < MAX_RETRIES and self._is_temporary(error):
                    retries += 1
                    await self._pause(error, attempt=retries)
                    continue
                retries, model = 0, self.request.model
                await self._recover(error)
                if self.request.model != model:
                    await self._publish(OTHER_MODEL)
                continue
            except (StreamBroken, MessageMalformed) as error:
                current = self._current
                if (cut := self._continue_after_cut(error)) is not None:
                    return cut
                await self._publish_retry(current)
                continue
            self._keep_current()
            if not self._is_summary(message):
                return message

    def keep_unfinished(self, results: Sequence[dict[str, Any]], *, is_stopped: bool) -> None:
        """Add what arrived of a turn that was not finished to the transcript, and these results of its calls.

        `is_stopped`: on request, not by an urgent message.
        """
        self._keep_current()
        self.transcript.add_results(results, note=INTERRUPTED if is_stopped else None)

    def _keep_current(self) -> None:
        """Add the current message to the transcript, once, as far as it has arrived."""
        message, self._current = self._current, None
        if message is None:
            return
        if not self._is_summary(message):
            self.transcript.add_message(message, model=self.request.model)
        elif message.stop_reason is not None:
            self._keep_summary(message)

    def _is_summary(self, message: MessageFold) -> bool:
        """Whether it is the summary that was requested."""
        return self._compacts and message.is_summary

    def _keep_summary(self, message: MessageFold) -> None:
        # Another one right after it would not help, and one after a failure neither.
        self._may_compact = False
        if message.summary is None:
            log.warning("run.not_summarized", reason="the summary is empty")
            return
        self.transcript.add_summary(message.summary, message, model=self.request.model)
        self._prompt_tokens = 0
        self._is_summarized = True

    async def report(self, *, ended: bool = False) -> None:
        """Report messages to billing."""
        for fact in self.meter.report(ended=ended):
            # It counts as reported: a cancellation must not prevent it.
            await run_to_completion(self.context.events.publish(UsageReport(fact)))

    async def _stream(self) -> MessageFold:
        message = MessageFold(self._deltas, self.transcript.call_ids)
        self._compacts = self._may_compact and self._prompt_tokens >= _COMPACTS_SOON
        if self._compacts and self._prompt_tokens >= COMPACTS_AT_TOKENS:
            await self.context.events.publish(Status(phase="compacting", label="Compacting"))
        closed = without_open_calls(self.transcript.messages)
        messages = sendable(closed)
        self._leaves_out |= messages is not closed
        if self._leaves_out and not self._has_warned:
            self._has_warned = True
            await self._publish(ATTACHMENTS_LEFT_OUT)
        text = self._text(messages)
        summaries = (COMPACTION_BETA,) if self._compacts or self.transcript.is_summarized else ()
        betas = (*self.request.betas, *summaries)
        try:
            async with self.client.stream(self.channel, text, betas=betas) as events:
                await self._read_all(message, events)
        finally:
            await self.report()
        if message.stop_reason is None:
            raise StreamBroken(_NO_END)
        await self._complete(message)
        return message

    def _text(self, messages: Sequence[dict[str, Any]]) -> str:
        marked = {len(messages) - 1, end_of_request_before(messages)}
        return self.request.text(messages, marked=marked, compacts=self._compacts)

    async def _read_all(self, message: MessageFold, events: AsyncIterator[dict[str, Any]]) -> None:
        """Read a message to its end; what goes wrong after its stop reason does not concern it."""
        try:
            async for event in events:
                await self._read(message, event)
        except (StreamBroken, MessageMalformed) as error:
            if message.stop_reason is None:
                raise
            log.info("run.message_end_unreadable", reason=loggable(str(error)))

    async def _read(self, message: MessageFold, event: Mapping[str, Any]) -> None:
        for ours in message.feed(event):
            if self._is_summary(message):
                # Not part of the conversation, whatever it contains.
                continue
            if isinstance(ours, ToolCallStart):
                # A call that clients have seen gets a result.
                await run_to_completion(self._publish(ours))
            else:
                await self._publish(ours)
        if event.get("type") == "message_start":
            self._current = message
            self.meter.start(message)
        if message.stop_reason is not None:
            await self.report()

    async def _publish(self, event: OutputEvent) -> None:
        self.tool_failures += isinstance(event, ToolCallResult) and event.is_error
        await self.context.events.publish(event)
        self.tools.on_published(event)

    async def _complete(self, message: MessageFold) -> None:
        self._prompt_tokens, self._last_stop = message.usage.prompt_tokens, message.stop_reason
        await self.report()
        if message.is_summary:
            return
        # The conversation has grown since its last summary.
        self._may_compact |= self._is_summarized
        self._is_summarized = False
        self.steps += 1
        step_budget = self.context.plan.limits.max_turns
        await self._publish(Step(step_index=self.steps, step_budget=step_budget))

    def _is_temporary(self, error: CallFailed) -> bool:
        """Whether the same call may succeed later."""
        return self.channel.refused is None and is_temporary(error.status, error.headers)

    async def _pause(self, error: CallFailed, *, attempt: int) -> None:
        """Wait before the same call is made again; the end of the run or of the turn interrupts it."""
        delay_s = pause_s(error.headers, attempt=attempt)
        log.info("run.call_retried", status=error.status, attempt=attempt, delay_s=round(delay_s, 3))
        await self._publish(retrying(attempt=attempt, delay_ms=delay_s * 1000))
        await asyncio.sleep(delay_s)

    async def _recover(self, error: CallFailed) -> None:
        """Prepare another call, or raise `ExecutionFailed`."""
        self._raise_if_refused(error)
        log.warning("run.call_failed", status=error.status, reason=loggable(error.reason))
        fallback = self.request.options.fallback
        if error.status in _OVERLOADED and fallback is not None and fallback != self.request.model:
            log.warning("run.model_replaced", model=self.request.model, fallback=fallback)
            self.request = replace(self.request, model=fallback)
            return
        if error.status == _BAD_REQUEST and self._may_change_request(error):
            return
        if await self._leaves_out_attachments(error):
            return
        if error.status is None:
            raise ExecutionFailed("provider_unavailable") from error
        raise ExecutionFailed(*failure_of_status(error.status)) from error

    def _raise_if_refused(self, error: Exception) -> None:
        """Raise `ExecutionFailed` if the gateway has refused a call."""
        if (refused := outcome_of_refusal(self.channel.refused, self._last_stop)) is not None:
            raise ExecutionFailed(*refused, self.channel.spent_budget) from error

    def _may_change_request(self, error: CallFailed) -> bool:
        """Whether the next call makes another request, which the provider may take."""
        is_too_long = TOO_LONG in error.reason
        if self.request.output_format is not None and not is_too_long:
            # Recursive schemas, and those that it cannot compile: only the provider knows which.
            log.warning("run.schema_refused", reason=loggable(error.reason))
            self.request = self.request.answering_by_tool()
            return True
        if not self._may_compact:
            return False
        if self._compacts:
            # A model without summaries, or the conversation is too long even for one.
            self._may_compact = False
            return not is_too_long
        if is_too_long:
            self._prompt_tokens = COMPACTS_AT_TOKENS
        return is_too_long

    async def _leaves_out_attachments(self, error: CallFailed) -> bool:
        """Whether the next call is made without the attachments of earlier messages, or of tools.

        The conversation has everything: what the provider refuses would be part of every later request.
        """
        is_too_long = TOO_LONG in error.reason
        if error.status not in _REFUSED or not (
            is_too_long or concerns_attachments(error.status, error.reason)
        ):
            return False
        log.warning("run.attachments_refused", reason=loggable(error.reason))
        if self.transcript.leave_out_attachments(keeps_last=True):
            self._leaves_out = True
            return True
        # The client knows nothing of what a tool has attached, and can do nothing about it.
        is_of_tools = self.transcript.ends_with_results
        if not is_too_long and (refused := refused_part(error.reason, self.transcript.messages)) is not None:
            await self._publish(refused)
        if self.transcript.leave_out_attachments(keeps_last=False):
            self._leaves_out |= is_of_tools
            return is_of_tools
        if is_too_long:
            # The next run of the conversation may succeed.
            self.transcript.leave_out_last_message()
        return False

    async def _publish_retry(self, dropped: MessageFold | None) -> None:
        """Report that the model is called again; without its text, nothing of a message was kept."""
        has_shown = dropped is not None and dropped.is_shown and not self._is_summary(dropped)
        if dropped is not None and has_shown and not dropped.text.strip():
            await self._publish(MessageDiscarded(message_id=dropped.message_id))
        await self._publish(retrying(attempt=self._cuts, delay_ms=None))

    def _continue_after_cut(self, error: Exception) -> MessageFold | None:
        """Prepare a call that continues the message, or raise `ExecutionFailed`.

        A message with complete tool calls is returned: their results continue it.
        """
        self._cuts += 1
        log.warning("run.message_cut_off", reason=loggable(str(error)), cuts=self._cuts)
        self._raise_if_refused(error)
        if self._cuts > MOST_CUTS:
            raise ExecutionFailed("provider_unavailable") from error
        message, self._current = self._current, None
        if message is not None and self._is_summary(message):
            return None
        if message is not None and message.tool_uses:
            message.stop_reason = "tool_use"
            self.transcript.add_message(message, model=self.request.model)
            return message
        if message is not None and message.text.strip():
            self.transcript.add_message(message, model=self.request.model)
            self.transcript.add_note(CUT_OFF_PROMPT)
            self.continued_text += message.text
        return None
