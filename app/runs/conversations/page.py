"""ConversationPage: a page of messages with the runs they belong to, including runs that still wait."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC

from app.conversations.records import Conversation, StoredEntry
from app.conversations.repository import first_positions, page_of_entries, run_at
from app.conversations.transcript import ConversationMessage, messages_of
from app.db import Reader
from app.errors import Invalid
from app.events import ToolCallResult
from app.runs.conversations.records import TurnRecord
from app.runs.conversations.repository import find_turns, stored_results, turns_of
from app.runs.events.codec import decode_events

PAGE_BYTES = 2 * 2**20
_LOOK_AHEAD = 50
"""How many lines after a page are searched for the results of its tool calls."""
_MAX_POSITION = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A message of a conversation, with the result that clients may see if it is a tool call."""

    message: ConversationMessage
    result: ToolCallResult | None


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A page of a conversation."""

    conversation: Conversation
    entries: Sequence[PageEntry]
    runs: Sequence[TurnRecord]
    """The runs of these messages."""
    continued_run: str | None
    """The run of the previous page that continues on this one."""
    next_run: str | None
    """The run of the next page's first line."""
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class _Lines:
    """The transcript lines of a page, and those that follow it."""

    after: int
    found: Sequence[StoredEntry]
    following: Sequence[StoredEntry]

    @property
    def end(self) -> int:
        return self.found[-1].position if self.found else self.after

    @property
    def run_ids(self) -> set[str]:
        return {stored.entry.run_id for stored in self.found if stored.entry.run_id is not None}

    def runs_starting_here(self, first: Mapping[str, int]) -> set[str | None]:
        return {run_id for run_id in self.run_ids if first[run_id] > self.after}


def parse_cursor(cursor: str | None) -> int:
    """The position before a page; raises `Invalid` naming `cursor`."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and int(cursor[:20]) <= _MAX_POSITION):
        raise Invalid.field("cursor", "is not a cursor of this list")
    return int(cursor[:20])


async def read_page(
    reader: Reader, conversation: Conversation, *, after: int, limit: int, tool_id_of: Callable[[str], str]
) -> ConversationPage:
    """The page after a position."""
    lines = await _read_lines(reader, conversation, after=after, limit=limit)
    turns = await turns_of(reader, conversation)
    first = await first_positions(reader, conversation.transcript)
    known: dict[str, TurnRecord] = {turn.key.run_id: turn for turn in turns}
    others = await find_turns(reader, conversation.account_id, lines.run_ids - set(known))
    known |= {turn.key.run_id: turn for turn in others}
    shown = [known[run_id] for run_id in first if run_id in lines.run_ids and run_id in known]
    found = [stored.entry for stored in (*lines.found, *lines.following)]
    messages = messages_of(found, tool_id_of=tool_id_of, only_first=len(lines.found))
    without_question = _runs_without_question(
        turns, lines, first, with_messages={message.run_id for message in messages}
    )
    results = await _results(reader, conversation, lines, messages)
    entries = [PageEntry(message, results.get(message.tool_call_id or "")) for message in messages]
    for turn in without_question:
        later = {run.key.run_id for run in shown if _is_later(run, turn)}
        indexes = (index for index, each in enumerate(entries) if each.message.run_id in later)
        entries.insert(next(indexes, len(entries)), _question_entry(turn))
    first_run = lines.found[0].entry.run_id if lines.found else None
    previous_run = await run_at(reader, conversation.transcript, after) if after else None
    return ConversationPage(
        conversation,
        entries,
        [*(run for run in shown if run not in without_question), *without_question],
        continued_run=previous_run if previous_run == first_run else None,
        next_run=lines.following[0].entry.run_id if lines.following else None,
        next_cursor=str(lines.end) if lines.following else None,
    )


async def _read_lines(reader: Reader, conversation: Conversation, *, after: int, limit: int) -> _Lines:
    transcript = conversation.transcript
    found = await page_of_entries(reader, transcript, after=after, limit=limit, max_bytes=PAGE_BYTES)
    end = found[-1].position if found else after
    following = await page_of_entries(
        reader, transcript, after=end, limit=_LOOK_AHEAD, max_bytes=PAGE_BYTES // 4
    )
    return _Lines(after, found, following)


async def _results(
    reader: Reader, conversation: Conversation, lines: _Lines, messages: Iterable[ConversationMessage]
) -> dict[str, ToolCallResult]:
    calls = {message.tool_call_id for message in messages if message.tool_call_id is not None}
    if not calls:
        return {}
    stored = await stored_results(reader, conversation.account_id, lines.run_ids, calls=calls)
    events = (entry.event for entry in decode_events(stored))
    return {event.tool_call_id: event for event in events if isinstance(event, ToolCallResult)}


def _runs_without_question(
    turns: Sequence[TurnRecord],
    lines: _Lines,
    first: Mapping[str, int],
    *,
    with_messages: AbstractSet[str | None],
) -> list[TurnRecord]:
    """The runs of this page whose question is not in the transcript."""
    # The CLI writes a line about a question before the question itself.
    started = lines.runs_starting_here(first) - with_messages
    started -= {stored.entry.run_id for stored in lines.following}
    without_lines = [turn for turn in turns if turn.key.run_id not in first]
    return [
        *(turn for turn in turns if turn.key.run_id in started),
        *(turn for turn in without_lines if _is_on_page(_first_position_after(turn, turns, first), lines)),
    ]


def _first_position_after(
    turn: TurnRecord, turns: Iterable[TurnRecord], first: Mapping[str, int]
) -> int | None:
    """The position of the first later turn in the transcript; a waiting run is shown before it."""
    later = (first.get(other.key.run_id) for other in turns if _is_later(other, turn))
    return min((position for position in later if position is not None), default=None)


def _is_on_page(position: int | None, lines: _Lines) -> bool:
    if position is None:
        return not lines.following
    return lines.after < position <= lines.end


def _is_later(other: TurnRecord, turn: TurnRecord) -> bool:
    return other.state_key == turn.state_key and (other.turn or 0) > (turn.turn or 0)


def _question_entry(run: TurnRecord) -> PageEntry:
    """The question of a run that is not in the transcript: it waits, or ended before it was asked."""
    at = run.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return PageEntry(ConversationMessage("user_message", run.key.run_id, at, content=run.question), None)
