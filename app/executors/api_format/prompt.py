"""Parts of a prompt in the format of the Messages API; pure."""

from collections.abc import Iterable, Sequence
from typing import Any

from app.requests import ImagePart, Message

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


def image_block(part: ImagePart) -> dict[str, Any]:
    """The content block of an image."""
    source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    return {"type": "image", "source": source}
