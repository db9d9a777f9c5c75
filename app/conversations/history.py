"""ConversationHistory: reads conversations in our own message format.

Each executor writes transcripts in a format of its own through `transcript_store.py`. `sdk_transcript.py`
maps the lines of both.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from app.conversations.branching.records import PassedOn
from app.conversations.cuts.answer_cuts import AnswerCuts
from app.conversations.messages import ConversationMessage
from app.conversations.records import Conversation, StoredEntry
from app.conversations.repository import entries_of_run, first_positions, page_of_entries, run_at
from app.conversations.sdk_transcript import has_user_entries, messages_of
from app.conversations.transcript_store import TranscriptStore
from app.ids import RunId
from app.platform.db import Reader

PAGE_BYTES = 2 * 2**20
_LOOK_AHEAD = 50
"""How many lines after a page are searched for the results of its tool calls."""


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """The messages between two positions of a conversation's history, and their runs."""

    after: int
    end: int
    messages: Sequence[ConversationMessage]
    runs: Sequence[str | None]
    """The run of each line of the page, also of lines that are no message."""
    following_runs: Sequence[str | None]
    """The run of each of the next lines; empty on the last page."""
    previous_run: str | None
    """The run of the line before the page."""
    first_positions: Mapping[str, int]
    """The position of each run's first line, in order; of all runs in the history."""


@dataclass(frozen=True, slots=True)
class ConversationHistory:
    """The messages of conversations."""

    sessions: TranscriptStore
    tool_id_of: Callable[[str], str]
    """Maps the model's name of a tool to its id."""

    async def read(
        self, conversation: Conversation, *, up_to: Collection[RunId] | None = None
    ) -> list[ConversationMessage] | None:
        """All messages, in order, or those up to the last one of these runs; None if there are none."""
        entries = await self.sessions.entries(conversation.transcript)
        if up_to is not None:
            ends = (index for index, entry in enumerate(entries, 1) if entry.run_id in up_to)
            entries = entries[: max(ends, default=0)]
        return messages_of(entries, tool_id_of=self.tool_id_of) if has_user_entries(entries) else None

    async def page(
        self,
        reader: Reader,
        conversation: Conversation,
        *,
        after: int,
        limit: int,
        passed_on: Mapping[str, Sequence[PassedOn]],
        contents: Mapping[str, bytes],
        with_thinking: bool = False,
    ) -> HistoryPage:
        """The page of up to `limit` lines after a position; `passed_on` is that of its tree.

        Raises `ContentsMissing` for what is stored outside the database and is not in `contents`.
        """
        transcript = conversation.transcript
        found = await page_of_entries(reader, transcript, after=after, limit=limit, max_bytes=PAGE_BYTES)
        end = found[-1].position if found else after
        following = await page_of_entries(
            reader, transcript, after=end, limit=_LOOK_AHEAD, max_bytes=PAGE_BYTES // 4
        )
        # The lines that cut answers are those of no run.
        cuts = AnswerCuts(entry.line for entry in await entries_of_run(reader, transcript, None))
        entries = cuts.applied_to([stored.entry.whole(contents) for stored in (*found, *following)])
        first = await first_positions(reader, transcript)
        return HistoryPage(
            after=after,
            end=end,
            messages=messages_of(
                entries,
                tool_id_of=self.tool_id_of,
                only_first=len(found),
                with_thinking=with_thinking,
                passed_on={run: each for run, each in passed_on.items() if first.get(run, 0) > after},
            ),
            runs=_runs(found),
            following_runs=_runs(following),
            previous_run=await run_at(reader, transcript, after) if after else None,
            first_positions=first,
        )


def _runs(entries: Sequence[StoredEntry]) -> list[str | None]:
    return [stored.entry.run_id for stored in entries]
