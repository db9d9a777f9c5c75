"""The contents of posted AG-UI messages as those of our messages; pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from ag_ui import core
from ag_ui.core.types import ContentPart

from app.errors import Invalid
from app.http.attachments import posted_attachment
from app.requests.attachments import PART_CHARS
from app.requests.messages import ContentPart as OurPart
from app.requests.messages import TextPart as OurText
from app.runs.requests.attachments import AttachmentRules, unreadable

Indexed: TypeAlias = tuple[int, dict[str, Any]]
"""A message of our request, and its index in the posted messages."""


def chat_messages(
    earlier: Iterable[tuple[int, core.Message]], new: tuple[int, core.Message], rules: AttachmentRules
) -> Iterator[Indexed]:
    """Texts and attachments of user and agent. Tool calls and results are already in the conversation.

    Of earlier messages, notes stand for what cannot be read, and for what does not fit beside the new one.
    """
    index, message = new
    content = _new_content(index, message) if isinstance(message, core.UserMessage) else ""
    before = [(number, each.role, _earlier_content(each, rules)) for number, each in earlier]
    contents = rules.fitting(
        [parts for _, _, parts in before], new=() if isinstance(content, str) else content
    )
    for (number, role, _), parts in zip(before, contents, strict=True):
        match parts:
            case []:
                continue
            case [OurText(text=text)] if text:
                yield number, {"role": role, "content": text}
            case _:
                yield number, {"role": role, "content": parts}
    yield index, {"role": "user", "content": content}


def chars_of(message: core.Message) -> int:
    """About how many characters a message of the chat has, attachments included."""
    match message:
        case core.AssistantMessage(content=str(text)) | core.UserMessage(content=str(text)):
            return len(text)
        case core.UserMessage(content=list(parts)):
            return sum(PART_CHARS + _chars_of(part) for part in parts)
        case _:
            return 0


def _chars_of(part: ContentPart) -> int:
    return len(part.text) if isinstance(part, core.TextPart) else len(getattr(part.source, "value", ""))


def one_message(messages: Sequence[Indexed]) -> list[Indexed]:
    """The user's messages since the last one that was answered, as one."""
    *earlier, (index, last) = messages
    if not earlier:
        return [(index, last)]
    parts = [
        part
        for _, message in messages
        for part in (
            [{"type": "text", "text": message["content"]}]
            if isinstance(message["content"], str)
            else message["content"]
        )
    ]
    return [(index, {**last, "content": parts})]


def _earlier_content(message: core.Message, rules: AttachmentRules) -> list[OurPart]:
    match message:
        case core.AssistantMessage(content=str(text)) if text and message.subagent_run_id is None:
            return [OurText(type="text", text=text)]
        case core.UserMessage(content=str(text)) if text:
            return [OurText(type="text", text=text)]
        case core.UserMessage(content=list(parts)):
            return [_readable(part, rules) for part in parts]
        case _:
            return []


def _new_content(index: int, message: core.UserMessage) -> str | list[OurPart]:
    """The content of the message to answer; raises `Invalid` naming what cannot be sent."""
    if isinstance(message.content, str):
        return message.content
    return [
        _part(part, field=f"messages.{index}.content.{number}") for number, part in enumerate(message.content)
    ]


def _readable(part: ContentPart, rules: AttachmentRules) -> OurPart:
    """A part of an earlier message; a note, if it cannot be sent or is not allowed."""
    try:
        ours = _part(part, field="")
    except Invalid:
        return unreadable(part.type)
    return ours if isinstance(ours, OurText) or rules.allow(ours) else unreadable(part.type)


def _part(part: ContentPart, *, field: str) -> OurPart:
    match part:
        case core.TextPart(text=text):
            return OurText(type="text", text=text)
        case core.ImagePart(source=source) | core.DocumentPart(source=source):
            filename = part.metadata.get("filename") if isinstance(part.metadata, dict) else None
            return posted_attachment(
                source.mime_type,
                **{"data" if isinstance(source, core.DataSource) else "url": source.value},
                type_of_part=part.type,
                title=filename if isinstance(filename, str) else None,
                field=field,
            )
        case _:
            # The protocol forbids failing for audio and video that an agent does not take.
            return unreadable(part.type)
