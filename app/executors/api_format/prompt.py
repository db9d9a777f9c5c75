"""Parts of a prompt in the format of the Messages API; pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from app.requests.attachments import PDF, TEXT
from app.requests.blank import is_blank
from app.requests.messages import Attachment, ImagePart, Message, TextPart

RESUME_PROMPT = (
    "The server that ran you was restarted. Continue where you left off; before you repeat a tool "
    "call, consider that it may have taken effect."
)
"""The prompt of a run that another process resumes, if the agent has got the run's messages before."""


def joined_prompt(parts: Iterable[str]) -> str:
    """The graph's prompt and what extends it, as one text."""
    return "\n\n".join(part.strip("\n") for part in parts)


def without_system(messages: Sequence[Message]) -> list[Message]:
    """The messages that are turns of the conversation."""
    return [message for message in messages if message.role != "system"]


def visible_parts(message: Message) -> list[TextPart | Attachment]:
    """The parts of a message without blank texts, which the API does not accept."""
    return [part for part in message.parts if not (isinstance(part, TextPart) and is_blank(part.text))]


def attachment_block(part: Attachment, *, clean: Callable[[str], str] = str) -> dict[str, Any]:
    """The content block of an image or a document; `clean` is applied to the texts of a client in it."""
    if isinstance(part, ImagePart):
        return {"type": "image", "source": _source(part, part.media_type)}
    if (text := part.content) is not None:
        source = {"type": "text", "media_type": TEXT, "data": clean(text)}
    else:
        source = _source(part, PDF)
    title = {} if part.title is None else {"title": clean(part.title)}
    return {"type": "document", "source": source, **title}


def _source(part: Attachment, media_type: str | None) -> dict[str, Any]:
    if part.url is not None:
        return {"type": "url", "url": part.url}
    return {"type": "base64", "media_type": media_type, "data": part.data}
