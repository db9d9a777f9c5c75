"""The contents of posted AG-UI messages as those of our messages; pure."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from ag_ui.core import (
    AssistantMessage,
    DataSource,
    DocumentPart,
    ImagePart,
    Message,
    TextPart,
    UrlSource,
    UserMessage,
)
from ag_ui.core.types import ContentPart
from pydantic import TypeAdapter, ValidationError

from app.http.attachments import data_fields, url_fields
from app.requests.attachments import PART_CHARS, PDF
from app.requests.messages import ContentPart as OurPart
from app.requests.messages import TextPart as OurText
from app.runs.requests.attachments import AttachmentRules, unreadable

_PART: TypeAdapter[Any] = TypeAdapter(OurPart)
_TYPES_BY_URL = {"image": "image", "document": PDF}

Indexed: TypeAlias = tuple[int, dict[str, Any]]
"""A message of our request, and its index in the posted messages."""


def chat_messages(
    earlier: Iterable[tuple[int, Message]], new: tuple[int, Message], rules: AttachmentRules
) -> Iterator[Indexed]:
    """Texts and attachments of user and agent. Tool calls and results are already in the conversation.

    Of earlier messages, notes stand for what cannot be read, and for what does not fit beside the new one.
    """
    index, message = new
    content = _new_content(message, rules) if isinstance(message, UserMessage) else ""
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


def chars_of(message: Message) -> int:
    """About how many characters a message of the chat has, attachments included."""
    match message:
        case AssistantMessage(content=str(text)) | UserMessage(content=str(text)):
            return len(text)
        case UserMessage(content=list(parts)):
            return sum(PART_CHARS + _chars_of(part) for part in parts)
        case _:
            return 0


def _chars_of(part: ContentPart) -> int:
    return len(part.text) if isinstance(part, TextPart) else len(getattr(part.source, "value", ""))


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


def _earlier_content(message: Message, rules: AttachmentRules) -> list[OurPart]:
    """The parts of an earlier message; none of what is not part of the chat."""
    match message:
        case AssistantMessage(content=str(text)) if text and message.subagent_run_id is None:
            return [OurText(type="text", text=text)]
        case UserMessage(content=str(text)) if text:
            return [OurText(type="text", text=text)]
        case UserMessage(content=list(parts)):
            return [_readable(_part(part, by_url=rules.by_url), rules) for part in parts]
        case _:
            return []


def _new_content(message: UserMessage, rules: AttachmentRules) -> str | list[Any]:
    """The content of the message to answer; parts that are not valid are left as they are posted."""
    if isinstance(message.content, str):
        return message.content
    parts: list[Any] = [_part(part, by_url=rules.by_url) for part in message.content]
    for index, part in enumerate(parts):
        with suppress(ValidationError):
            parts[index] = _PART.validate_python(part)
    return parts


def _readable(part: dict[str, Any], rules: AttachmentRules) -> OurPart:
    """A part of an earlier message; a note, if it is not valid or not allowed."""
    try:
        parsed: OurPart = _PART.validate_python(part)
    except ValidationError:
        return unreadable(part["type"])
    return parsed if isinstance(parsed, OurText) or rules.allow(parsed) else unreadable(part["type"])


def _part(part: ContentPart, *, by_url: bool) -> dict[str, Any]:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case ImagePart() | DocumentPart() if (attachment := _attachment(part, by_url=by_url)) is not None:
            return attachment
        case _:
            # The protocol forbids failing here, so the model gets a note that the attachment is missing.
            return unreadable(part.type).model_dump()


def _attachment(part: ImagePart | DocumentPart, *, by_url: bool) -> dict[str, Any] | None:
    """The attachment; None if no model takes it, or it is by URL and the server allows none."""
    filename = part.metadata.get("filename") if isinstance(part.metadata, dict) else None
    title = filename if isinstance(filename, str) else None
    match part.source:
        case DataSource(value=data, mime_type=media_type):
            return data_fields(media_type, data, title=title)
        case UrlSource(value=url, mime_type=media_type) if by_url:
            return url_fields(media_type or _TYPES_BY_URL[part.type], url, title=title)
        case _:
            return None
