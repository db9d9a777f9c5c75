"""EventMapper: SDK messages -> the events a client gets; no I/O."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import claude_agent_sdk as sdk
from pydantic import JsonValue

from app import events
from app.executors.api_format.retried import ATTACHMENTS_LEFT_OUT, OTHER_MODEL, WrittenMessage, retrying
from app.executors.api_format.stream import DeltaMapper
from app.executors.api_format.web import PAUSED
from app.executors.claude_agent.meters.usage import MeteredMessage, is_message_id
from app.executors.claude_agent.tools.builtin_tools import visible_args
from app.executors.claude_agent.tools.names import STRUCTURED_OUTPUT, tool_id_of
from app.graphs.spec import AGENT_TOOL
from app.requests.client_tools import is_client_tool, shown_name
from app.requests.messages import SentMessage
from runtally.tools.result import ToolResult

_REMOVED = re.compile(r"\b(image|document|PDF)s?\b.*\bremoved\b")
"""In an error text of the CLI: the provider has refused an attachment, and the CLI goes on without it."""


def _label(name: str) -> str:
    """The name by which clients know the tool that the model calls by this one."""
    return shown_name(tool_id_of(name))


@dataclass(slots=True)
class EventMapper:
    """Feed it every SDK message in order; each call yields the events of that message."""

    tool_ids: frozenset[str]
    cli_tools: frozenset[str]
    """The CLI's own tools that this run may use."""
    take_result: Callable[[str], ToolResult | None]
    """The result of a call of our tools: clients see its visible part, never the model's text."""
    show_thinking: bool
    step_budget: int | None
    steps: int = 0
    """The steps so far, of earlier attempts as well if the run was parked."""
    _expected: dict[str, SentMessage] = field(default_factory=dict)
    _streaming: dict[str | None, str] = field(default_factory=dict)
    _streamed: set[str] = field(default_factory=set)
    _writing: dict[str | None, WrittenMessage] = field(default_factory=dict)
    """The last message of the main agent and of each subagent."""
    _open_calls: dict[str, str] = field(default_factory=dict)
    _continued: str = ""
    _deltas: DeltaMapper = field(init=False)
    _has_warned: bool = False

    def __post_init__(self) -> None:
        self._deltas = DeltaMapper(self.show_thinking, _label, STRUCTURED_OUTPUT)

    @property
    def has_subagents(self) -> bool:
        """Whether a subagent is at work."""
        return AGENT_TOOL in self._open_calls.values()

    @property
    def open_calls(self) -> set[str]:
        """The ids of the calls without a result."""
        return set(self._open_calls)

    @property
    def expects_messages(self) -> bool:
        """Whether the agent has not started to process every message it was sent."""
        return bool(self._expected)

    @property
    def last_message_id(self) -> str | None:
        return self._writing[None].message_id if None in self._writing else None

    @property
    def last_text(self) -> str:
        """The text of the main agent's last message, and of those before it that the provider has paused."""
        return self._continued + (self._writing[None].text if None in self._writing else "")

    def expect(self, sent: SentMessage) -> None:
        """Yield an event once the agent starts to process this message."""
        self._expected[sent.message_id] = sent

    def feed(self, message: sdk.Message) -> Iterator[events.OutputEvent]:
        match message:
            case sdk.StreamEvent():
                yield from self._stream_event(message.event, message.parent_tool_use_id)
            case sdk.AssistantMessage():
                yield from self._assistant(message)
            case sdk.SystemMessage():
                yield from _status_events(message)
            case sdk.UserMessage(uuid=str(uuid)) if uuid in self._expected:
                taken, self._continued = self._expected.pop(uuid), ""
                yield events.UserMessageDelivered(message_id=uuid, content=taken.message.text)
            case sdk.UserMessage():
                yield from self._tool_results(message)
            case sdk.ResultMessage(stop_reason=reason):
                self._continued = self.last_text if reason == PAUSED else self._continued
                yield from self._deltas.web.unfinished()
            case _:
                return

    def step_events(self, message: MeteredMessage) -> Iterator[events.Step]:
        """The step event of a completed message; a truncated message is no step."""
        if message.final and message.parent_tool_call_id is None:
            self.steps += 1
            yield events.Step(step_index=self.steps, step_budget=self.step_budget)

    def _stream_event(self, event: Mapping[str, Any], parent: str | None) -> Iterator[events.OutputEvent]:
        match event.get("type"):
            case "message_start":
                message_id = str(event["message"].get("id") or "")
                yield from self._begin(message_id, parent)
                self._streaming[parent] = message_id
                self._streamed.add(message_id)
            case "content_block_start":
                yield from self._deltas.block_start(event["content_block"], parent)
            case "content_block_delta" if parent in self._streaming:
                for delta in self._deltas.delta(event["delta"], self._streaming[parent], parent):
                    self._writing[parent].add(delta)
                    yield delta
            case "message_delta" if parent in self._writing:
                # One without a stop reason is made up by the CLI when it gave up on the message.
                self._writing[parent].is_complete |= event["delta"].get("stop_reason") is not None
            case _:
                return

    def _begin(self, message_id: str, parent: str | None) -> Iterator[events.OutputEvent]:
        """A message begins: what the CLI has dropped of the one before is discarded."""
        if (before := self._writing.get(parent)) is not None and before.message_id != message_id:
            yield from before.discarded_events(show_thinking=self.show_thinking)
        if before is None or before.message_id != message_id:
            self._writing[parent] = WrittenMessage(message_id, parent)

    def _assistant(self, message: sdk.AssistantMessage) -> Iterator[events.OutputEvent]:
        parent = message.parent_tool_use_id
        if self._is_unstreamed(message):
            yield from self._begin(message.message_id or "", parent)
            self._writing[parent].is_complete = True
        else:
            self._keep(message)
        if message.error and _names_removed_attachment(message) and not self._has_warned:
            self._has_warned = True
            yield ATTACHMENTS_LEFT_OUT
        if parent is not None and not message.content:
            # The SDK leaves out what the provider's tools have found, and streams no message of a subagent.
            yield from self._deltas.web.unread_results(parent)
        for block in message.content:
            if isinstance(block, sdk.ToolUseBlock) and block.name != STRUCTURED_OUTPUT:
                tool_id = tool_id_of(block.name)
                self._open_calls[block.id] = tool_id
                yield events.ToolCallStart(
                    tool_call_id=block.id,
                    tool_name=shown_name(tool_id),
                    args=visible_args(tool_id, block.input),
                    is_client_tool=is_client_tool(tool_id),
                    parent_tool_call_id=parent,
                )
            elif isinstance(block, sdk.ServerToolUseBlock):
                yield from self._deltas.web.call({"id": block.id, "name": block.name}, block.input, parent)
            elif isinstance(block, sdk.TextBlock) and self._is_unstreamed(message):
                yield events.TextDelta(
                    message_id=message.message_id or "",
                    delta=block.text,
                    parent_tool_call_id=parent,
                )

    def _keep(self, message: sdk.AssistantMessage) -> None:
        """The CLI has complete blocks of a streamed message."""
        written = self._writing.get(message.parent_tool_use_id)
        if written is None or written.message_id != message.message_id:
            return
        for block in message.content:
            if isinstance(block, sdk.TextBlock):
                written.keep(text=block.text)
            elif isinstance(block, sdk.ThinkingBlock):
                written.keep(thinking=block.thinking)

    def _is_unstreamed(self, message: sdk.AssistantMessage) -> bool:
        """Whether the text was not streamed before. False for the CLI's own error texts: never shown."""
        message_id = message.message_id or ""
        return is_message_id(message_id) and message_id not in self._streamed

    def _tool_results(self, message: sdk.UserMessage) -> Iterator[events.OutputEvent]:
        if isinstance(message.content, str):
            return
        for block in message.content:
            if isinstance(block, sdk.ToolResultBlock) and block.tool_use_id in self._open_calls:
                tool_id = self._open_calls.pop(block.tool_use_id)
                answered = self.take_result(block.tool_use_id)
                failed = bool(block.is_error) if tool_id in self.cli_tools else True
                yield events.ToolCallResult(
                    tool_call_id=block.tool_use_id,
                    result=answered.visible
                    if answered
                    else self._result_without_tool(tool_id, failed=failed),
                    is_error=answered.is_error if answered else failed,
                    parent_tool_call_id=message.parent_tool_use_id,
                )

    def _result_without_tool(self, tool_id: str, *, failed: bool) -> dict[str, JsonValue]:
        """What clients see of a call that the tool runner did not answer.

        Either it is one of the CLI's own tools, whose results only the model gets, or the CLI answered in
        the tool's place: the call was denied, unparsable or interrupted.
        """
        if not failed:
            return {}
        return {"error": "failed" if tool_id in self.tool_ids | self.cli_tools else "unknown_tool"}


def _names_removed_attachment(message: sdk.AssistantMessage) -> bool:
    """Whether the CLI reports that it makes a refused request again without an attachment."""
    texts = (block.text for block in message.content if isinstance(block, sdk.TextBlock))
    return any(_REMOVED.search(text) for text in texts)


def _status_events(message: sdk.SystemMessage) -> Iterator[events.Status]:
    """What the CLI reports about its calls; never the provider's text."""
    match message:
        case sdk.SystemMessage(subtype="status", data={"status": "compacting"}):
            yield events.Status(phase="compacting", label="Compacting")
        case sdk.SystemMessage(subtype="api_retry", data=data):
            yield retrying(attempt=data.get("attempt"), delay_ms=data.get("retry_delay_ms"))
        case sdk.SystemMessage(subtype="model_fallback"):
            yield OTHER_MODEL
        case _:
            return
