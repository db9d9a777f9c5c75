"""Text that clients have seen of a message that broke off, and that the CLI has not stored.

The CLI drops a message that fails. The next turn of the conversation would not know what its user still
reads.
"""

from collections.abc import Sequence
from typing import Any

import structlog

from app.conversations.records import TranscriptEntry
from app.conversations.transcript_store import TranscriptStore
from app.events import AiEvent, MessageDiscarded, Status, TextDelta, UsageReport
from app.executors.claude_agent.transcripts.lines import chained_lines, line_after, message_of
from app.executors.port import RunContext, RunPlan
from app.platform.db import AttemptOver

log = structlog.get_logger(__name__)


class SeenText:
    """What clients have of a run: the text of the last message of its main agent, or nothing yet."""

    def __init__(self) -> None:
        self.message_id: str | None = None
        self.text = ""
        self.is_silent = True
        """Whether clients have got nothing yet but what the run is doing."""

    def feed(self, event: AiEvent) -> None:
        """Add what was published."""
        self.is_silent &= isinstance(event, Status | UsageReport)
        if isinstance(event, TextDelta) and event.parent_tool_call_id is None:
            self.text = event.delta if event.message_id != self.message_id else self.text + event.delta
            self.message_id = event.message_id
        elif isinstance(event, MessageDiscarded) and event.message_id == self.message_id:
            self.message_id, self.text = None, ""


async def store_unfinished(store: TranscriptStore, context: RunContext, seen: SeenText) -> None:
    """Add the message to the transcript as far as it was seen, unless the CLI has stored it.

    Once the CLI of a run that has failed has ended.
    """
    plan = context.plan
    if plan.conversation is None or seen.message_id is None or not seen.text.strip():
        return
    transcript = plan.conversation.transcript

    async def add() -> None:
        entries = await store.entries(transcript)
        if (line := unfinished_line(entries, plan, seen)) is not None:
            await store.add(transcript, [TranscriptEntry(line, plan.run.run_id, plan.attempt)])

    try:
        if not await store.persist(add, context.control.closing):
            log.error("transcript.lines_lost", run_id=plan.run.run_id, lines=1)
    except AttemptOver:
        log.warning("transcript.fenced")


def unfinished_line(
    entries: Sequence[TranscriptEntry], plan: RunPlan, seen: SeenText
) -> dict[str, Any] | None:
    """The line of the message; None if it has one, or the run none that it could follow."""
    lines = chained_lines(entries, plan.run.run_id)
    if not lines or any(message_of(line).get("id") == seen.message_id for line in lines):
        return None
    return line_after(
        lines[-1],
        {
            "id": seen.message_id,
            "type": "message",
            "role": "assistant",
            "model": plan.model,
            "content": [{"type": "text", "text": seen.text}],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": 0},
        },
    )
