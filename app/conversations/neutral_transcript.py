"""Transcripts in the format of the Messages API: their lines, and the messages that the API gets; pure.

A line has the form of a line of the CLI's transcripts as far as both have the same, so that one mapping
(`sdk_transcript.py`) shows either to clients. Unlike those it contains nothing that belongs to a program.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from app.conversations.records import TranscriptEntry
from app.ids import new_uuid

_LEFT_OUT = "attachments_left_out"
_TOO_LONG = "message_left_out"
_IDS = {"tool_use": ("id", "name"), "tool_result": ("tool_use_id",)}
"""What blocks must have to belong together."""

_ATTACHMENTS = frozenset({"image", "document"})
_NOTE = {"type": "text", "text": "[This is left out here: it is too long.]"}
INTERRUPTED_CALL = "The call was interrupted; it may have taken effect."
"""The result of a tool call that has none."""


def user_line(
    content: Sequence[Mapping[str, Any]], *, is_note: bool = False, is_earlier: bool = False
) -> dict[str, Any]:
    """The line of a user message.

    `is_note`: the server wrote it in the user's name, and clients do not see it. `is_earlier`: it is from
    before the conversation began here.
    """
    return {
        "type": "user",
        **_common(is_earlier=is_earlier),
        **({"isMeta": True} if is_note else {}),
        "message": {"role": "user", "content": list(content)},
    }


def assistant_line(
    content: Sequence[Mapping[str, Any]],
    *,
    message_id: str | None = None,
    model: str | None = None,
    stop_reason: str | None = None,
    is_earlier: bool = False,
) -> dict[str, Any]:
    ids = {"id": message_id, "model": model} if message_id else {}
    stop_reason = "end_turn" if is_earlier else stop_reason
    return {
        "type": "assistant",
        **_common(is_earlier=is_earlier),
        "message": {**ids, "role": "assistant", "content": list(content), "stop_reason": stop_reason},
    }


def compaction_line() -> dict[str, Any]:
    """The line that says that the model gets a summary of everything before."""
    return {"type": "system", "subtype": "compact_boundary", **_common(is_earlier=False)}


def left_out_line(*, keeps_last: bool) -> dict[str, Any]:
    """The line that says that the model gets notes for the attachments before; see `without_attachments`."""
    return {
        "type": "system",
        "subtype": _LEFT_OUT,
        "keepsLast": keeps_last,
        **_common(is_earlier=False),
    }


def too_long_line() -> dict[str, Any]:
    """The line that says that the model gets a note for the message before; see `without_last_message`."""
    return {"type": "system", "subtype": _TOO_LONG, **_common(is_earlier=False)}


def api_messages(entries: Sequence[TranscriptEntry]) -> tuple[list[dict[str, Any]], int]:
    """The conversation as the API gets it: every tool call has a result, nothing before a summary.

    Also returns how many lines cannot be read; they are left out.
    """
    messages: list[dict[str, Any]] = []
    unreadable = 0
    for line in (entry.line for entry in entries):
        if line.get("type") in ("user", "assistant"):
            message = _message_of(line)
            messages += [] if message is None else [message]
            unreadable += message is None
        elif line.get("subtype") == _LEFT_OUT:
            messages = without_attachments(messages, keeps_last=line.get("keepsLast") is True)
        elif line.get("subtype") == _TOO_LONG:
            messages = without_last_message(messages)
    return list(_with_results(_from_summary(messages))), unreadable


def without_attachments(
    messages: Sequence[dict[str, Any]], *, keeps_last: bool = False
) -> list[dict[str, Any]]:
    """The messages with notes for all attachments; `keeps_last`: except for those of the last message."""
    end = len(messages) - keeps_last
    return [
        *({**each, "content": without_attached(each["content"])} for each in messages[:end]),
        *messages[end:],
    ]


def without_last_message(messages: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages with a note for the last one if a user wrote it; if it has results, one for each."""
    if not messages or messages[-1]["role"] != "user":
        return list(messages)
    *before, last = messages
    return [*before, {**last, "content": note_for(last["content"])}]


def without_open_calls(messages: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """The messages without calls of the provider's own tools that got no result, and such results of no call.

    What the conversation ends with is left as it is: the provider goes on with the calls of a turn that it
    has paused.
    """
    turns = [list(turn) for _, turn in groupby(messages, key=lambda message: message["role"])]
    kept = [each for turn in turns[:-1] for each in _closed(turn)]
    if len(kept) == sum(map(len, turns[:-1])) and all(map(_is_same, kept, messages)):
        return messages
    return [*kept, *turns[-1]]


def note_for(content: Any) -> list[dict[str, Any]]:
    """What the model gets instead of a user's message that is too long, or instead of results of tools."""
    blocks = content if isinstance(content, list) else []
    results = [block for block in blocks if isinstance(block, dict) and block.get("type") == "tool_result"]
    return [{**block, "content": [_NOTE]} for block in results] or [_NOTE]


def call_ids_of(messages: Sequence[Mapping[str, Any]]) -> set[str]:
    return {block["id"] for message in messages for block in _calls_in(message)}


def is_attachment(block: object) -> bool:
    """Whether a block is an attachment, of a message or of the result of a tool."""
    return isinstance(block, dict) and block.get("type") in _ATTACHMENTS


def without_attached(content: Any) -> Any:
    """The content of a message with notes for its attachments."""
    return [_note_or(block) for block in content] if isinstance(content, list) else content


def _note_or(block: Any) -> Any:
    if is_attachment(block):
        return {"type": "text", "text": f"[An attachment of type {block['type']} is left out here.]"}
    if isinstance(block, dict) and block.get("type") == "tool_result":
        return {**block, "content": without_attached(block.get("content"))}
    return block


def _common(*, is_earlier: bool) -> dict[str, Any]:
    at = None if is_earlier else datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {"uuid": str(new_uuid()), "timestamp": at}


def _message_of(line: Mapping[str, Any]) -> dict[str, Any] | None:
    match line:
        case {"type": str(role), "message": {"content": [_, *_] as content}} if all(
            isinstance(block, dict) and _has(block, "type", *_IDS.get(str(block.get("type")), ()))
            for block in content
        ):
            return {"role": role, "content": content}
        case _:
            return None


def _has(block: Mapping[str, Any], *names: str) -> bool:
    return all(isinstance(block.get(name), str) for name in names)


def _calls_in(message: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if message["role"] == "assistant":
        yield from (block for block in message["content"] if block["type"] == "tool_use")


def _closed(turn: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The consecutive messages of one role, which the provider reads as one."""
    blocks = [block for message in turn for block in message["content"]]
    calls = {block.get("id") for block in blocks if block["type"] == "server_tool_use"}
    results = {block.get("tool_use_id") for block in blocks if _is_result(block)}
    if calls == results:
        return list(turn)
    whole = calls & results
    contents = ([block for block in each["content"] if _is_kept(block, whole)] for each in turn)
    return [{**each, "content": content} for each, content in zip(turn, contents, strict=True) if content]


def _is_kept(block: Mapping[str, Any], whole: set[Any]) -> bool:
    if block["type"] == "server_tool_use":
        return block.get("id") in whole
    return not _is_result(block) or block.get("tool_use_id") in whole


def _is_result(block: Mapping[str, Any]) -> bool:
    kind = block["type"]
    return kind != "tool_result" and str(kind).endswith("_tool_result")


def _is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one is other


def _from_summary(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    summaries = [
        index
        for index, message in enumerate(messages)
        if any(block["type"] == "compaction" and block.get("content") for block in message["content"])
    ]
    return messages[summaries[-1] :] if summaries else messages


def _with_results(messages: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The messages, each call followed by its result and each result after its call."""
    pending: list[str] = []
    for message in messages:
        if message["role"] == "user":
            yield from _answering(message, pending)
        else:
            if pending:
                yield from _answering({"role": "user", "content": []}, pending)
            yield message
        pending = [block["id"] for block in _calls_in(message)]
    if pending:
        yield from _answering({"role": "user", "content": []}, pending)


def _answering(message: dict[str, Any], pending: Sequence[str]) -> Iterator[dict[str, Any]]:
    """A user's message with results of all pending calls, and of no others."""
    kept = [block for block in message["content"] if block.get("tool_use_id", "") in ("", *pending)]
    answered = {block.get("tool_use_id") for block in kept}
    missing = [interrupted_result(call_id) for call_id in pending if call_id not in answered]
    if content := [*missing, *kept]:
        yield message if content == message["content"] else {**message, "content": content}


def interrupted_result(call_id: str, text: str = INTERRUPTED_CALL) -> dict[str, Any]:
    return tool_result(call_id, [{"type": "text", "text": text}], is_error=True)


def tool_result(call_id: str, content: Sequence[Mapping[str, Any]], *, is_error: bool) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "tool_use_id": call_id,
        "content": list(content),
        "is_error": is_error,
    }
