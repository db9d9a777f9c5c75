"""Mapping of the SDK's transcript lines to our messages; pure.

The format of the CLI's lines is not documented: unknown lines are skipped. Texts that the CLI
generated itself (among them the provider's errors) are never shown.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from app.conversations.history_text import HistoryTurn, decode_history
from app.conversations.messages import ConversationMessage, MessageType
from app.conversations.records import TranscriptEntry

INTERRUPTED = ("[Request interrupted by user]", "[Request interrupted by user for tool use]")
"""Messages that the CLI writes in the user's name when it is interrupted."""


def has_user_entries(entries: Sequence[TranscriptEntry]) -> bool:
    """Whether there is a session to resume."""
    return any(entry.line.get("type") == "user" for entry in entries)


def has_question_of(entries: Sequence[TranscriptEntry], run_id: str) -> bool:
    """Whether the run's question is in the transcript."""
    return any(entry.run_id == run_id and entry.line.get("type") == "user" for entry in entries)


def last_entry_of(entries: Sequence[TranscriptEntry], run_id: str) -> str | None:
    """The id of the run's last user or assistant entry."""
    ids = [
        _text(entry.line.get("uuid"))
        for entry in entries
        if entry.run_id == run_id and entry.line.get("type") in ("user", "assistant")
    ]
    return next(filter(None, reversed(ids)), None)


def messages_of(
    entries: Sequence[TranscriptEntry], *, tool_id_of: Callable[[str], str], only_first: int | None = None
) -> list[ConversationMessage]:
    """The messages in order; `tool_id_of` maps the model's name of a tool to its id.

    `only_first` limits how many entries become messages; the others only supply results of tool calls.
    """
    failed = dict(_tool_results(entries))
    return [message for entry in entries[:only_first] for message in _read(entry, failed, tool_id_of)]


def _read(
    entry: TranscriptEntry, failed: Mapping[str, bool], tool_id_of: Callable[[str], str]
) -> Iterator[ConversationMessage]:
    line = entry.line
    if line.get("isMeta") or line.get("isSidechain"):
        return
    match line:
        case {"type": "user", "message": {"content": content}}:
            yield from _user(entry, content)
        case {"type": "attachment", "attachment": {"type": "queued_command", "prompt": content}}:
            yield from _user(entry, content)
        case {"type": "assistant", "message": dict(message)} if message.get("model") != "<synthetic>":
            yield from _assistant(entry, message, failed, tool_id_of)
        case {"type": "system", "subtype": "compact_boundary"}:
            yield ConversationMessage("system_message", entry.run_id, _at(entry), compaction=True)
        case _:
            return


def _user(entry: TranscriptEntry, content: Any) -> Iterator[ConversationMessage]:
    texts = [content] if isinstance(content, str) else _texts(content)
    if not texts or texts[0] in INTERRUPTED or entry.line.get("isCompactSummary"):
        return
    earlier = decode_history(texts[0]) if len(texts) > 1 else None
    for turn in earlier or []:
        yield _earlier(entry, turn)
    text = "\n\n".join(texts if earlier is None else texts[1:])
    yield ConversationMessage("user_message", entry.run_id, _at(entry), content=text)


def _earlier(entry: TranscriptEntry, turn: HistoryTurn) -> ConversationMessage:
    kind: MessageType = "assistant_message" if turn.role == "assistant" else "user_message"
    return ConversationMessage(kind, entry.run_id, None, content=turn.text)


def _assistant(
    entry: TranscriptEntry,
    message: Mapping[str, Any],
    failed: Mapping[str, bool],
    tool_id_of: Callable[[str], str],
) -> Iterator[ConversationMessage]:
    message_id = _text(message.get("id"))
    for block in _blocks(message.get("content")):
        match block:
            case {"type": "text", "text": str(text)}:
                yield ConversationMessage(
                    "assistant_message",
                    entry.run_id,
                    _at(entry),
                    content=text,
                    message_id=message_id,
                    partial=message.get("stop_reason") is None,
                )
            case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
                yield ConversationMessage(
                    "tool_call",
                    entry.run_id,
                    _at(entry),
                    message_id=message_id,
                    tool_call_id=call_id,
                    tool_name=tool_id_of(name),
                    args=block.get("input"),
                    is_error=failed.get(call_id),
                )
            case _:
                pass


def _tool_results(entries: Sequence[TranscriptEntry]) -> Iterator[tuple[str, bool]]:
    for entry in entries:
        message = entry.line.get("message")
        for block in _blocks(message.get("content") if isinstance(message, dict) else None):
            match block:
                case {"type": "tool_result", "tool_use_id": str(call_id)}:
                    yield call_id, bool(block.get("is_error"))
                case _:
                    pass


def _texts(content: Any) -> list[str]:
    texts = (block.get("text") for block in _blocks(content) if block.get("type") == "text")
    return [text for text in texts if isinstance(text, str)]


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _at(entry: TranscriptEntry) -> str | None:
    return _text(entry.line.get("timestamp"))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
