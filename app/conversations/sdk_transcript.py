"""Mapping of the SDK's transcript lines to our messages; pure.

The format of the CLI's lines is not documented: unknown lines are skipped. Texts that the CLI
generated itself (among them the provider's errors) are never shown.
"""

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

from app.conversations.attachments import AttachmentSummary, attachments_of, noted_in
from app.conversations.branching.records import PassedOn
from app.conversations.history_text import HistoryTurn, decode_history
from app.conversations.messages import ConversationMessage, MessageFile, MessageType
from app.conversations.neutral_transcript import note_for, without_attached
from app.conversations.records import TranscriptEntry
from app.requests.attachments import PDF
from app.usage.records import WebTool

PAUSED_PROMPT = "[The turn was paused by the server. Continue exactly where it stopped.]"
"""The message, in the user's name, with which a CLI goes on after the provider has paused a turn."""

_NOT_OF_USERS = (
    *("[Request interrupted by user]", "[Request interrupted by user for tool use]"),
    PAUSED_PROMPT,
)
"""Messages that the CLI and its run write in the user's name."""

_TOO_LONG = "prompt is too long"
_REFUSED = ("invalid_request", "unknown")
"""What the CLI calls an answer 400 or 413; the second where it does not know the provider's text."""


def has_user_entries(entries: Sequence[TranscriptEntry]) -> bool:
    """Whether there is a session to resume."""
    return any(entry.line.get("type") == "user" for entry in entries)


def has_question_of(entries: Sequence[TranscriptEntry], run_id: str) -> bool:
    return any(entry.run_id == run_id and entry.line.get("type") == "user" for entry in entries)


def resumable_lines(
    entries: Sequence[TranscriptEntry], *, concerns_attachments: Callable[[str], bool]
) -> list[dict[str, Any]]:
    """The lines for a CLI that continues the conversation.

    Notes replace what the provider has refused, because it would be part of every later prompt: messages
    that the model could not answer because they were too long, and the attachments before a turn that failed
    with an error that may concern them.
    """
    lines = [entry.line for entry in entries]
    unanswered: list[int] = []
    for index, line in enumerate(lines):
        if _is_from_user(line):
            unanswered.append(index)
        elif line.get("type") == "assistant":
            failed = line.get("isApiErrorMessage")
            if failed and _TOO_LONG not in _error_of(line).lower():
                continue
            for each in unanswered if failed else ():
                lines[each] = _with_content(lines[each], note_for)
            unanswered.clear()
    end = _end_of_refused_attachments(lines, concerns_attachments)
    return [*(_with_content(line, without_attached) for line in lines[:end]), *lines[end:]]


def _end_of_refused_attachments(
    lines: Sequence[Mapping[str, Any]], concerns_attachments: Callable[[str], bool]
) -> int:
    """The index after the error of the last such turn; a turn that continues has left out the attachment."""
    end = failed = 0
    for index, line in enumerate(lines, 1):
        if line.get("type") == "assistant":
            failed = index if concerns_attachments(_error_of(line)) else 0
        elif failed and _is_from_user(line):
            end = failed
    return failed or end


def _error_of(line: Mapping[str, Any]) -> str:
    """The error of a refused request; empty for any other line."""
    match line:
        case {"isApiErrorMessage": True, "error": error, "message": {"content": content}} if (
            error in _REFUSED
        ):
            return "\n".join([str(line.get("errorDetails", "")), *_texts(content)])
        case _:
            return ""


def _is_from_user(line: Mapping[str, Any]) -> bool:
    match line:
        case {"isMeta": True} | {"isSidechain": True} | {"isCompactSummary": True}:
            return False
        case {"type": "user", "message": {"content": _}}:
            return True
        case {"type": "attachment", "attachment": {"type": "queued_command", "prompt": _}}:
            return True
        case _:
            return False


def _with_content(line: dict[str, Any], convert: Callable[[Any], Any]) -> dict[str, Any]:
    """The line with other content, if a user wrote it."""
    if not _is_from_user(line):
        return line
    if line["type"] == "attachment":
        queued = line["attachment"]
        return {**line, "attachment": {**queued, "prompt": convert(queued["prompt"])}}
    message = line["message"]
    return {**line, "message": {**message, "content": convert(message["content"])}}


def messages_of(
    entries: Sequence[TranscriptEntry],
    *,
    tool_id_of: Callable[[str], str],
    only_first: int | None = None,
    with_thinking: bool = False,
    passed_on: Mapping[str, Sequence[PassedOn]] | None = None,
) -> list[ConversationMessage]:
    """The messages in order; `tool_id_of` maps the model's name of a tool to its id.

    `only_first` limits how many entries become messages; the others only supply results of tool calls.
    `passed_on`: the messages of other runs that the first one of a run begins with.
    """
    failed = dict(_tool_results(entries))
    joined = dict(passed_on or {})
    messages: list[ConversationMessage] = []
    for entry in entries[:only_first]:
        others = () if _at(entry) is None else joined.get(entry.run_id or "", ())
        read = [
            replace(message, line_id=_line_id(entry, number))
            for number, message in enumerate(_read(entry, failed, tool_id_of, others))
            if with_thinking or not message.thinking
        ]
        if others and read:
            del joined[entry.run_id or ""]
        messages += read
    return messages


def _line_id(entry: TranscriptEntry, number: int) -> str | None:
    line_id = _text(entry.line.get("uuid"))
    return line_id if line_id is None or not number else f"{line_id}/{number}"


def _read(
    entry: TranscriptEntry,
    failed: Mapping[str, bool],
    tool_id_of: Callable[[str], str],
    passed_on: Sequence[PassedOn],
) -> Iterator[ConversationMessage]:
    line = entry.line
    if line.get("isMeta") or line.get("isSidechain"):
        return
    match line:
        case {"type": "user", "message": {"content": content}}:
            yield from _user(entry, content, passed_on)
        case {"type": "attachment", "attachment": {"type": "queued_command", "prompt": content}}:
            yield from _user(entry, content)
        case {"type": "assistant", "message": dict(message)} if message.get("model") != "<synthetic>":
            yield from _assistant(entry, message, failed, tool_id_of)
        case {"type": "system", "subtype": "compact_boundary"}:
            yield ConversationMessage("system_message", entry.run_id, _at(entry), compaction=True)
        case _:
            return


def _user(
    entry: TranscriptEntry, content: Any, passed_on: Sequence[PassedOn] = ()
) -> Iterator[ConversationMessage]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else _blocks(content)
    texts, attached = _texts(blocks), attachments_of(blocks)
    first = texts[0] if texts else ""
    if not (texts or attached) or first in _NOT_OF_USERS or entry.line.get("isCompactSummary"):
        return
    earlier = decode_history(first) if len(texts) + len(attached) > 1 else None
    noted = noted_in(earlier or (), attached)
    for index, turn in enumerate(earlier or ()):
        yield _earlier(entry, turn, noted.get(index))
    if earlier is not None:
        blocks = blocks[1 + len(noted) :]
    for each in passed_on:
        yield _message(entry, each.run_id, blocks[: each.parts], has_files=earlier is None)
        blocks = blocks[each.parts :]
    yield _message(entry, entry.run_id, blocks, has_files=earlier is None)


def _message(
    entry: TranscriptEntry, run_id: str | None, blocks: Sequence[dict[str, Any]], *, has_files: bool
) -> ConversationMessage:
    return ConversationMessage(
        "user_message",
        run_id,
        _at(entry),
        content="\n\n".join(_texts(blocks)),
        # Those after a record of earlier turns may be of these.
        files=tuple(_files(blocks)) if has_files else (),
        attachments=attachments_of(blocks),
    )


def _files(blocks: Sequence[dict[str, Any]]) -> Iterator[MessageFile]:
    for block in blocks:
        match block:
            case {"source": {"type": "base64", "media_type": str(media_type), "data": str(data)}}:
                yield MessageFile(media_type, data=data, title=_title(block))
            case {"source": {"type": "text", "media_type": str(media_type), "data": str(text)}}:
                data = base64.b64encode(text.encode()).decode()
                yield MessageFile(media_type, data=data, title=_title(block))
            case {"type": str(kind), "source": {"type": "url", "url": str(url)}}:
                media_type = PDF if kind == "document" else "image/*"
                yield MessageFile(media_type, url=url, title=_title(block))
            case _:
                pass


def _title(block: Mapping[str, Any]) -> str | None:
    title = block.get("title")
    return title if isinstance(title, str) else None


def _earlier(
    entry: TranscriptEntry, turn: HistoryTurn, attachment: AttachmentSummary | None
) -> ConversationMessage:
    kind: MessageType = "assistant_message" if turn.role == "assistant" else "user_message"
    attachments = () if attachment is None else (attachment,)
    text = turn.text if attachment is None else ""
    return ConversationMessage(kind, entry.run_id, None, content=text, attachments=attachments)


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
            case {"type": "thinking", "thinking": str(thinking)} if thinking:
                yield ConversationMessage(
                    "assistant_message",
                    entry.run_id,
                    _at(entry),
                    message_id=message_id,
                    thinking=thinking,
                )
            case {"type": kind, "id": str(call_id), "name": str(name)} if _is_shown_call(kind, name):
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
                case {"tool_use_id": str(call_id), "content": content}:
                    # Of a tool of the provider.
                    yield call_id, isinstance(content, dict) and "error_code" in content
                case _:
                    pass


def _is_shown_call(kind: Any, name: str) -> bool:
    """Whether clients see a call: one of our tools, or of the provider's for the web."""
    return kind == "tool_use" or (kind == "server_tool_use" and name in get_args(WebTool))


def _texts(content: Any) -> list[str]:
    texts = (block.get("text") for block in _blocks(content) if block.get("type") == "text")
    return [text for text in texts if isinstance(text, str)]


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _at(entry: TranscriptEntry) -> str | None:
    return _text(entry.line.get("timestamp"))


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
