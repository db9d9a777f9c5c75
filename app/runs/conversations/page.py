"""A page of a conversation: what was said there, by which runs, and what waits to be answered."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC

from app.conversations.repository import Conversation, StoredEntry, first_positions, page_of_entries, run_at
from app.conversations.transcript import ConversationMessage, messages_of
from app.db import Reader
from app.errors import Invalid
from app.events import ToolCallResult
from app.runs.conversations.repository import TurnRecord, find_turns, stored_results, turns_of
from app.runs.event_codec import decode_events

PAGE_BYTES = 2 * 2**20
_LOOK_AHEAD = 50
"""How many lines after a page are looked through for the results of its tool calls."""
_MAX_POSITION = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A message of a conversation; of a tool call also what clients may see of its result."""

    message: ConversationMessage
    result: ToolCallResult | None


@dataclass(frozen=True, slots=True)
class ConversationPage:
    """A part of a conversation."""

    conversation: Conversation
    said: Sequence[PageEntry]
    runs: Sequence[TurnRecord]
    """The runs of these messages; how each of them ended is there."""
    continued_run: str | None
    """The run that the page before broke off in."""
    next_run: str | None
    """The run that the next page begins with."""
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class _Lines:
    """The lines of a page."""

    after: int
    found: Sequence[StoredEntry]
    following: Sequence[StoredEntry]

    @property
    def end(self) -> int:
        return self.found[-1].position if self.found else self.after

    @property
    def run_ids(self) -> set[str]:
        return {placed.entry.run_id for placed in self.found if placed.entry.run_id is not None}

    def begun(self, first: Mapping[str, int]) -> set[str | None]:
        return {run_id for run_id in self.run_ids if first[run_id] > self.after}


def parse_cursor(cursor: str | None) -> int:
    """Where a page begins; raises `Invalid` for what is no cursor."""
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
    entries = [placed.entry for placed in (*lines.found, *lines.following)]
    messages = messages_of(entries, tool_id_of=tool_id_of, only_first=len(lines.found))
    without_question = _runs_without_question(
        turns, lines, first, with_messages={message.run_id for message in messages}
    )
    results = await _results(reader, conversation, lines, messages)
    said = [PageEntry(message, results.get(message.tool_call_id or "")) for message in messages]
    for turn in without_question:
        later = {run.key.run_id for run in shown if _is_later(run, turn)}
        places = (index for index, each in enumerate(said) if each.message.run_id in later)
        said.insert(next(places, len(said)), _question_entry(turn))
    begins_with = lines.found[0].entry.run_id if lines.found else None
    broken_off = await run_at(reader, conversation.transcript, after) if after else None
    return ConversationPage(
        conversation,
        said,
        [*(run for run in shown if run not in without_question), *without_question],
        continued_run=broken_off if broken_off == begins_with else None,
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
    # The CLI notes that it was asked something before it writes down what.
    begun = lines.begun(first) - with_messages - {placed.entry.run_id for placed in lines.following}
    never = [turn for turn in turns if turn.key.run_id not in first]
    return [
        *(turn for turn in turns if turn.key.run_id in begun),
        *(turn for turn in never if _is_on_page(_first_position_after(turn, turns, first), lines)),
    ]


def _first_position_after(
    turn: TurnRecord, turns: Iterable[TurnRecord], first: Mapping[str, int]
) -> int | None:
    """Where the first later turn begins that has said something; a run that waits is shown before it."""
    later = (first.get(other.key.run_id) for other in turns if _is_later(other, turn))
    return min((position for position in later if position is not None), default=None)


def _is_on_page(position: int | None, lines: _Lines) -> bool:
    if position is None:
        return not lines.following
    return lines.after < position <= lines.end


def _is_later(other: TurnRecord, turn: TurnRecord) -> bool:
    return other.state_key == turn.state_key and (other.turn or 0) > (turn.turn or 0)


def _question_entry(run: TurnRecord) -> PageEntry:
    """What was asked of a run that is not in the transcript: it waits, or never got so far."""
    at = run.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    return PageEntry(ConversationMessage("user_message", run.key.run_id, at, content=run.question), None)
