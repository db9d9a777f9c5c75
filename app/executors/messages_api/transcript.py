"""RunTranscript: the messages of one run, in memory and in its conversation."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from app.conversations.history_merge import HistoryConflict, new_messages
from app.conversations.neutral_transcript import (
    INTERRUPTED_CALL,
    api_messages,
    assistant_line,
    call_ids_of,
    compaction_line,
    interrupted_result,
    left_out_line,
    too_long_line,
    user_line,
    without_attachments,
    without_last_message,
)
from app.conversations.records import Conversation, TranscriptEntry
from app.conversations.sdk_transcript import has_question_of, messages_of
from app.conversations.transcript_store import TranscriptStore
from app.errors import Unavailable
from app.executors.api_format.prompt import RESUME_PROMPT
from app.executors.messages_api.message import MessageFold
from app.executors.messages_api.request import BEGINNING, posted_messages, text_block
from app.executors.port import ExecutionFailed, RunPlan
from app.platform.concurrency.time_slice import TimeSlice
from app.platform.db import AttemptOver, DatabaseUnavailable, StatementFailed
from app.requests.messages import Message

log = structlog.get_logger(__name__)

INTERRUPTED = "[Request interrupted by user]"


class RunTranscript:
    """Messages are stored while the run goes on; `close` waits until all are."""

    def __init__(self, store: TranscriptStore, plan: RunPlan) -> None:
        self._store = store
        self._run_id, self._attempt = plan.run.run_id, plan.attempt
        self._conversation: Conversation | None = plan.conversation
        self.messages: list[dict[str, Any]] = []
        """What the API gets."""
        self.call_ids: set[str] = set()
        """Of all tool calls in it."""
        self._unsaved: list[TranscriptEntry] = []
        self._saving: asyncio.Task[None] | None = None
        self._refused = asyncio.Event()
        """Set when something else than the database has kept lines from being stored."""
        self._fenced = False

    async def load(self, messages: Sequence[Message]) -> None:
        """Read the conversation, and add the run's messages as far as it does not contain them.

        Raises `ExecutionFailed` for messages that contradict it, and `DatabaseUnavailable`.
        """
        entries: Sequence[TranscriptEntry] = ()
        if self._conversation is not None:
            entries = await self._store.entries(self._conversation.transcript)
        self.messages, unreadable = api_messages(entries)
        if unreadable:
            log.error("transcript.lines_unreadable", run_id=self._run_id, lines=unreadable)
        self.call_ids = call_ids_of(self.messages)
        if has_question_of(entries, self._run_id):
            self.add_note(RESUME_PROMPT)
            return
        if self.messages:
            try:
                messages = new_messages(messages, messages_of(entries, tool_id_of=str))
            except HistoryConflict as error:
                raise ExecutionFailed("invalid_request") from error
        *earlier, current = posted_messages(messages)
        time_slice = TimeSlice()
        lines = []
        for message in earlier:
            lines.append(_earlier_line(message))
            await time_slice.checkpoint()
        # Stored together: another attempt continues a run that has lines.
        for line in (*lines, user_line(current["content"])):
            self._add(line)

    async def resume(self, messages: list[dict[str, Any]] | None, calls: Sequence[Sequence[Any]]) -> bool:
        """Go on with these calls of the last message, if any; False if the conversation does not end so.

        `messages` are those of a run without a conversation.
        """
        if self._conversation is not None:
            entries = await self._store.entries(self._conversation.transcript)
            messages, _ = api_messages(entries)
            # Calls without results have got some that say so.
            messages = messages[:-1] if calls else messages
        self.messages = messages or []
        self.call_ids = call_ids_of(self.messages)
        return call_ids_of(self.messages[-1:]).issuperset(call[0] for call in calls)

    def add_user(self, content: Sequence[dict[str, Any]]) -> None:
        """Results of tool calls, and messages of clients."""
        self._add(user_line(content))

    def add_note(self, text: str) -> None:
        """A message that the server writes in the user's name."""
        self._add(user_line([text_block(text)], is_note=True))

    def add_results(
        self,
        results: Sequence[dict[str, Any]],
        *,
        of_others: str = INTERRUPTED_CALL,
        note: str | None = None,
    ) -> None:
        """Results that end a turn; the other calls of its last message get the text `of_others`."""
        calls = [block["id"] for block in self.messages[-1]["content"] if block["type"] == "tool_use"]
        found = {block["tool_use_id"]: block for block in results}
        blocks = [found.get(call_id) or interrupted_result(call_id, of_others) for call_id in calls]
        if note is not None:
            blocks.append(text_block(note))
        if blocks:
            self._add(user_line(blocks, is_note=True))

    def add_message(self, message: MessageFold, *, model: str) -> None:
        """A message of the model; of one that was cut off, what can be sent back."""
        if content := message.content():
            self._add(
                assistant_line(
                    content, message_id=message.message_id, model=model, stop_reason=message.stop_reason
                )
            )

    @property
    def is_summarized(self) -> bool:
        """Whether it begins with a summary."""
        first: dict[str, Any] = self.messages[0]["content"][0]
        return bool(first["type"] == "compaction")

    def add_summary(self, summary: Mapping[str, Any], message: MessageFold, *, model: str) -> None:
        """The summary that a message is: the API gets it instead of everything before."""
        tail = _unanswered(self.messages)
        self._append(compaction_line())
        self.messages = []
        self._add(
            assistant_line(
                [summary], message_id=message.message_id, model=model, stop_reason=message.stop_reason
            )
        )
        for each in tail:
            write = user_line if each["role"] == "user" else assistant_line
            self._add({**write(each["content"]), "isMeta": True})

    @property
    def ends_with_results(self) -> bool:
        """Whether the model has not read the results of its last calls."""
        return _has_results(self.messages[-1])

    def leave_out_attachments(self, *, keeps_last: bool) -> bool:
        """From now on the model gets notes for attachments; returns whether there were any.

        `keeps_last`: only for those before the last message.
        """
        messages = without_attachments(self.messages, keeps_last=keeps_last)
        if messages == self.messages:
            return False
        self.messages = messages
        self._append(left_out_line(keeps_last=keeps_last))
        return True

    def leave_out_last_message(self) -> None:
        """From now on the model gets a note for what it has not answered."""
        self.messages = without_last_message(self.messages)
        self._append(too_long_line())

    async def close(self, closing: asyncio.Event) -> None:
        """Wait until everything is stored, if that is in time; `closing`: the process stops."""
        if (saving := self._saving) is None:
            return
        if not await self._store.in_time(saving, closing=closing, refused=self._refused):
            saving.cancel()
            log.error("transcript.lines_lost", run_id=self._run_id, lines=len(self._unsaved))

    def _add(self, line: dict[str, Any]) -> None:
        message = line["message"]
        self.messages.append({"role": message["role"], "content": message["content"]})
        self._append(line)

    def _append(self, line: dict[str, Any]) -> None:
        if self._fenced:
            raise AttemptOver
        if self._conversation is None:
            return
        self._unsaved.append(TranscriptEntry(line, self._run_id, self._attempt))
        if self._saving is None:
            self._saving = asyncio.create_task(self._save(self._conversation))

    async def _save(self, conversation: Conversation) -> None:
        try:
            alone = False
            while self._unsaved:
                batch = self._unsaved[: 1 if alone else None]
                try:
                    await self._store.add(conversation.transcript, batch)
                except AttemptOver:
                    log.warning("transcript.fenced", run_id=self._run_id)
                    self._fenced = True
                    self._unsaved.clear()
                    return
                except Unavailable as error:
                    if not isinstance(error, DatabaseUnavailable):
                        self._refused.set()
                    log.warning("transcript.save_failed", reason=error.detail)
                    await asyncio.sleep(self._store.retry_s)
                    continue
                except StatementFailed as error:
                    if not alone:
                        # One of them may be the cause.
                        alone = True
                        continue
                    log.error(  # noqa: TRY400
                        "transcript.lines_lost", run_id=self._run_id, lines=1, reason=str(error)
                    )
                del self._unsaved[: len(batch)]
        finally:
            self._saving = None


def _earlier_line(message: Mapping[str, Any]) -> dict[str, Any]:
    """The line of a message from before the conversation."""
    if message["role"] == "user":
        return user_line(message["content"], is_note=message == BEGINNING, is_earlier=True)
    return assistant_line(message["content"], is_earlier=True)


def _unanswered(messages: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The end of the conversation that the model has not answered: it stays behind a summary."""
    # Results belong to the message that has the calls.
    return messages[-2:] if _has_results(messages[-1]) else messages[-1:]


def _has_results(message: Mapping[str, Any]) -> bool:
    return any(block["type"] == "tool_result" for block in message["content"])
