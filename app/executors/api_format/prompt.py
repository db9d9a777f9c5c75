"""Parts of a prompt in the format of the Messages API; pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from app.requests.attachments import PDF, TEXT
from app.requests.messages import Attachment, ImagePart, Message

RESUME_PROMPT = (
    "The server that ran you was restarted. Continue where you left off; before you repeat a tool "
    "call, consider that it may have taken effect."
)
"""The prompt of a run that another process resumes, if the agent has got the run's messages before."""


def joined_prompt(parts: Iterable[str]) -> str:
    """The graph's prompt and what extends it, as one text."""
    return "\n\n".join(part.strip("\n") for part in parts)


def turns_of(messages: Sequence[Message]) -> list[Message]:
    """The messages that are turns of the conversation: neither system messages nor empty answers."""
    return [
        each for each in messages if each.role == "user" or (each.role == "assistant" and each.text.strip())
    ]


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
