"""Dialects of AG-UI: what the releases of @ag-ui/client before 1.0 understand of our events.

Their schemas reject an event of an unknown type or with an unknown outcome, which ends the run in the client
with an error; they ignore unknown fields. The releases are those whose schemas first have the events.

Before 0.0.43 they read only the lines of the stream that have a space after `data:`, which server-sent events
do not require. So what they do not know can be sent to a client whose release is unknown.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from ag_ui import core

from app.http.ag_ui.interrupt import METADATA_KEY, InterruptId

RELEASE_PATTERN: Final = r"^[0-9]{1,4}\.[0-9]{1,4}(\.[0-9]{1,4})?$"

_SUBAGENT: Final = (core.SubagentStartedEvent, core.SubagentFinishedEvent, core.SubagentErrorEvent)
_ThinkingType: TypeAlias = Literal[
    "THINKING_START",
    "THINKING_TEXT_MESSAGE_START",
    "THINKING_TEXT_MESSAGE_CONTENT",
    "THINKING_TEXT_MESSAGE_END",
    "THINKING_END",
]
_THINKING: Final[dict[type[core.BaseEvent], _ThinkingType]] = {
    core.ReasoningStartEvent: "THINKING_START",
    core.ReasoningMessageStartEvent: "THINKING_TEXT_MESSAGE_START",
    core.ReasoningMessageContentEvent: "THINKING_TEXT_MESSAGE_CONTENT",
    core.ReasoningMessageEndEvent: "THINKING_TEXT_MESSAGE_END",
    core.ReasoningEndEvent: "THINKING_END",
}


class ThinkingEvent(core.BaseEvent):
    """An event of reasoning by its name before 0.0.45, which the library for servers no longer has."""

    type: _ThinkingType  # type: ignore[assignment]
    delta: str | None = None


@dataclass(frozen=True, slots=True)
class Dialect:
    """What some releases understand."""

    since: tuple[int, ...]
    has_reasoning: bool = True
    """Whether they know `REASONING_*`, messages with that role, and messages with parts."""
    may_have_reasoning: bool = False
    """Whether the same is sent in lines that releases before 0.0.43 do not read."""
    has_interrupts: bool = True
    """Whether they can resume a run; the others learn of a pending request from a `CUSTOM` event."""
    has_subagents: bool = True
    """Whether they know `SUBAGENT_*`; the others would show a subagent's messages as answers."""
    has_cancelled: bool = True
    """Whether a run can end with the outcome `cancelled`."""

    def translate(self, event: core.BaseEvent) -> Iterator[core.BaseEvent]:
        """The event as these releases understand it; nothing if they cannot."""
        if not self.has_subagents and (isinstance(event, _SUBAGENT) or _has_subagent(event)):
            return
        match event:
            case core.RunFinishedEvent(outcome=core.RunFinishedCancelledOutcome()) if not self.has_cancelled:
                yield event.model_copy(update={"outcome": core.RunFinishedSuccessOutcome(type="success")})
            case core.RunFinishedEvent(outcome=core.RunFinishedInterruptOutcome() as outcome):
                if not self.has_interrupts:
                    for interrupt in outcome.interrupts:
                        yield _request(interrupt, event.timestamp)
                yield event
            case core.MessagesSnapshotEvent(messages=messages):
                yield from self._snapshots(event, messages)
            case _ if not (self.has_reasoning or self.may_have_reasoning) and type(event) in _THINKING:
                delta = getattr(event, "delta", None)
                yield ThinkingEvent(type=_THINKING[type(event)], delta=delta, timestamp=event.timestamp)
            case _:
                yield event

    def frame(self, event: core.BaseEvent) -> str:
        """The event in the stream, in ASCII."""
        field = "data:" if self.may_have_reasoning and _is_later(event) else "data: "
        return f"{field}{event.model_dump_json(by_alias=True, ensure_ascii=True)}\n\n"

    def _snapshots(
        self, event: core.MessagesSnapshotEvent, messages: Sequence[core.Message]
    ) -> Iterator[core.BaseEvent]:
        known = [message for message in messages if self.has_subagents or not _has_subagent(message)]
        complete = event.model_copy(update={"messages": known})
        is_for_some = self.may_have_reasoning and _is_later(complete)
        if is_for_some or not self.has_reasoning:
            basic = [_with_text_only(each) for each in known if not isinstance(each, core.ReasoningMessage)]
            yield event.model_copy(update={"messages": basic})
        if is_for_some or self.has_reasoning:
            yield complete


CURRENT: Final = Dialect((1, 0))
_WITH_SUBAGENTS: Final = Dialect((0, 0, 59), has_cancelled=False)
_WITH_RESUME: Final = Dialect((0, 0, 54), has_subagents=False, has_cancelled=False)
_WITH_REASONING: Final = Dialect((0, 0, 45), has_interrupts=False, has_subagents=False, has_cancelled=False)
OLDEST: Final = Dialect(
    (0,), has_reasoning=False, has_interrupts=False, has_subagents=False, has_cancelled=False
)
DIALECTS: Final = (CURRENT, _WITH_SUBAGENTS, _WITH_RESUME, _WITH_REASONING, OLDEST)
"""Newest first."""
UNKNOWN: Final = replace(OLDEST, may_have_reasoning=True)
"""For a client that shows nothing of its release. 0.0.43 and 0.0.44 read its reasoning and do not know it."""


def dialect_of(posted: core.RunAgentInput, release: str | None) -> Dialect:
    """The dialect of the client that has posted this; `release` is that of its @ag-ui/client, if it is known.

    Only 1.0 posts a version. An earlier release shows in what it posts, if at all; otherwise it gets what all
    releases understand or do not read.
    """
    if release is not None:
        return _dialect_of_release(release)
    if posted.protocol_version is not None:
        return CURRENT
    if any(_has_subagent(message) for message in posted.messages):
        return _WITH_SUBAGENTS
    if posted.resume:
        return _WITH_RESUME
    if any(isinstance(message, core.ReasoningMessage) for message in posted.messages):
        # They may come from the server's history instead of a stream.
        return replace(_WITH_REASONING, may_have_reasoning=True)
    return UNKNOWN


def _dialect_of_release(release: str) -> Dialect:
    numbers = tuple(map(int, re.findall(r"[0-9]+", release)))
    return next(dialect for dialect in DIALECTS if dialect.since <= numbers)


def _has_subagent(part: core.BaseEvent | core.Message) -> bool:
    return getattr(part, "subagent_run_id", None) is not None


def _is_later(event: core.BaseEvent) -> bool:
    """Whether releases before 0.0.45 reject it: reasoning, and messages with parts."""
    if isinstance(event, core.MessagesSnapshotEvent):
        return any(
            isinstance(message, core.ReasoningMessage)
            or (isinstance(message, core.UserMessage) and not isinstance(message.content, str))
            for message in event.messages
        )
    return type(event) in _THINKING


def _request(interrupt: core.Interrupt, timestamp: int | None) -> core.CustomEvent:
    """The request, with what is needed to answer it through the native API."""
    named = InterruptId.parse(interrupt.id)
    value = {
        **({} if named is None else {"runId": named.run_id, "requestId": named.request_id}),
        "toolCallId": interrupt.tool_call_id,
        **(interrupt.metadata or {}).get(METADATA_KEY, {}),
        "expiresAt": interrupt.expires_at,
    }
    name = "question" if "questions" in value else "permission_request"
    return core.CustomEvent(name=name, value=value, timestamp=timestamp)


def _with_text_only(message: core.Message) -> core.Message:
    if not isinstance(message, core.UserMessage) or isinstance(message.content, str):
        return message
    texts = [part.text for part in message.content if isinstance(part, core.TextPart)]
    return message.model_copy(update={"content": "\n\n".join(texts)})
