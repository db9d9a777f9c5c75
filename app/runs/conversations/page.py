"""ConversationPage: a page of messages with the runs they belong to, including runs that still wait."""

from collections.abc import Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC

from app.conversations.branching.tree import imported_message_id, later_message_id, user_message_id
from app.conversations.history import HistoryPage
from app.conversations.messages import ConversationMessage
from app.conversations.records import Conversation
from app.errors import Invalid
from app.events import Citation, ToolCallResult
from app.platform.db import Reader
from app.runs.conversations.records import TurnRecord
from app.runs.conversations.repository import find_turns, stored_additions, turns_of
from app.runs.events.codec import decode_events

_MAX_POSITION = 2**63 - 1


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A message of a conversation, with what clients have got to it."""

    message: ConversationMessage
    result: ToolCallResult | None = None
    """Of a tool call."""
    citations: Sequence[Citation] = ()
    """Of an answer; those of a message with several texts are at its last one."""


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


def parse_cursor(cursor: str | None) -> int:
    """The position before a page; raises `Invalid` naming `cursor`."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and int(cursor[:20]) <= _MAX_POSITION):
        raise Invalid.field("cursor", "is not a cursor of this list")
    return int(cursor[:20])


async def turns_on_branch(
    reader: Reader, conversation: Conversation, path: Sequence[str]
) -> list[TurnRecord]:
    """The conversation's own runs of a branch, oldest first; `path` are all its runs."""
    on_branch = set(path)
    return [turn for turn in await turns_of(reader, conversation) if turn.key.run_id in on_branch]


async def read_page(
    reader: Reader, conversation: Conversation, history: HistoryPage, *, turns: Sequence[TurnRecord]
) -> ConversationPage:
    """A page of the history together with its runs; `turns` are those of `turns_on_branch`."""
    # A run whose message another one has passed on has no lines.
    run_ids = _without_none([*_writers(history), *history.runs])
    known: dict[str, TurnRecord] = {turn.key.run_id: turn for turn in turns}
    others = await find_turns(reader, conversation.account_id, run_ids - known.keys())
    known |= {turn.key.run_id: turn for turn in others}
    shown = [known[run_id] for run_id in run_ids if run_id in known]
    without_question = _runs_without_question(turns, history)
    entries = await _entries(reader, conversation, run_ids, list(_with_message_ids(history, known)))
    for turn in without_question:
        later = {run.key.run_id for run in shown if _is_later(run, turn)}
        indexes = (index for index, each in enumerate(entries) if each.message.run_id in later)
        entries.insert(next(indexes, len(entries)), _question_entry(turn))
    first_run = history.runs[0] if history.runs else None
    following = history.following_runs
    return ConversationPage(
        conversation,
        entries,
        [*(run for run in shown if run not in without_question), *without_question],
        continued_run=history.previous_run if history.previous_run == first_run else None,
        next_run=following[0] if following else None,
        next_cursor=str(history.end) if following else None,
    )


def _with_message_ids(history: HistoryPage, known: Mapping[str, TurnRecord]) -> Iterator[ConversationMessage]:
    """The messages of the page, each with an id."""
    # The message that a run answers is its first one, which may be on an earlier page.
    unanswered = {run_id for run_id, first in history.first_positions.items() if first > history.after}
    for message in history.messages:
        if message.run_id is None or message.message_id is not None or message.type == "system_message":
            yield message
            continue
        line_id = message.line_id or ""
        if message.run_id not in history.first_positions:
            run = known.get(message.run_id)
            at = message.at if run is None else _time_of(run)
            yield replace(message, at=at, message_id=question_id(message.run_id, run))
            continue
        if message.at is None:
            message_id = imported_message_id(message.run_id, line_id)
        elif message.type == "user_message" and message.run_id in unanswered:
            unanswered.discard(message.run_id)
            message_id = question_id(message.run_id, known.get(message.run_id))
        else:
            message_id = later_message_id(message.run_id, line_id)
        yield replace(message, message_id=message_id)


def _writers(history: HistoryPage) -> list[str | None]:
    return [message.run_id for message in history.messages]


def _without_none(run_ids: Iterable[str | None]) -> KeysView[str]:
    """Each run once, in order."""
    return dict.fromkeys(run_id for run_id in run_ids if run_id is not None).keys()


def question_id(run_id: str, turn: TurnRecord | None) -> str:
    """The id of the message that a run answers."""
    return (None if turn is None else turn.message_id) or user_message_id(run_id)


async def _entries(
    reader: Reader,
    conversation: Conversation,
    run_ids: Collection[str],
    messages: Sequence[ConversationMessage],
) -> list[PageEntry]:
    calls = {message.tool_call_id for message in messages if message.tool_call_id is not None}
    # The last of each id counts.
    texts = {message.message_id: message for message in messages if message.content}
    answers = {message_id for message_id in texts if message_id is not None}
    stored = await stored_additions(reader, conversation.account_id, run_ids, calls=calls, messages=answers)
    results: dict[str, ToolCallResult] = {}
    citations: dict[str, list[Citation]] = {}
    for entry in decode_events(stored):
        if isinstance(entry.event, ToolCallResult):
            results[entry.event.tool_call_id] = entry.event
        elif isinstance(entry.event, Citation):
            citations.setdefault(entry.event.message_id, []).append(entry.event)
    return [
        PageEntry(
            message,
            results.get(message.tool_call_id or ""),
            citations.get(message.message_id or "", ()) if message is texts.get(message.message_id) else (),
        )
        for message in messages
    ]


def _runs_without_question(turns: Sequence[TurnRecord], history: HistoryPage) -> list[TurnRecord]:
    first = history.first_positions
    # The CLI writes a line about a question before the question itself.
    started = {run_id for run_id in history.runs if run_id is not None and first[run_id] > history.after}
    written = _without_none(_writers(history))
    started -= written
    started -= {run_id for run_id in history.following_runs if run_id is not None}
    return [
        *(turn for turn in turns if turn.key.run_id in started),
        *(
            turn
            for turn in turns
            if turn.key.run_id not in first
            and turn.key.run_id not in written
            and _is_on_page(_first_position_after(turn, turns, first), history)
        ),
    ]


def _first_position_after(
    turn: TurnRecord, turns: Iterable[TurnRecord], first: Mapping[str, int]
) -> int | None:
    """The position of the first later turn in the history; a waiting run is shown before it."""
    later = (first.get(other.key.run_id) for other in turns if _is_later(other, turn))
    return min((position for position in later if position is not None), default=None)


def _is_on_page(position: int | None, history: HistoryPage) -> bool:
    if position is None:
        return not history.following_runs
    return history.after < position <= history.end


def _is_later(other: TurnRecord, turn: TurnRecord) -> bool:
    return other.state_key == turn.state_key and (other.turn or 0) > (turn.turn or 0)


def _question_entry(run: TurnRecord) -> PageEntry:
    """The question of a run that is not in the history: it waits, or ended before its agent got it."""
    run_id, message_id = run.key.run_id, question_id(run.key.run_id, run)
    return PageEntry(
        ConversationMessage(
            "user_message", run_id, _time_of(run), content=run.question, message_id=message_id
        )
    )


def _time_of(run: TurnRecord) -> str:
    return run.created_at.astimezone(UTC).isoformat().replace("+00:00", "Z")
