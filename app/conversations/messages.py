"""ConversationMessage: a message in our own format, whichever executor wrote it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from app.conversations.attachments import AttachmentSummary

MessageType = Literal["system_message", "user_message", "assistant_message", "tool_call"]


@dataclass(frozen=True, slots=True)
class MessageFile:
    """A file that a user has sent with a message: base64 encoded, or by URL."""

    media_type: str
    """`image/*` of an image by URL."""
    data: str = ""
    url: str | None = None
    title: str | None = None


@dataclass(frozen=True, slots=True)
class ConversationMessage:
    """A message or tool call in a conversation."""

    type: MessageType
    run_id: str | None
    at: str | None
    """When it was written (RFC 3339); None for messages from before the conversation began here."""
    content: str = ""
    message_id: str | None = None
    partial: bool = False
    """Whether the text was cut off."""
    compaction: bool = False
    """Whether the model gets a summary of everything before this."""
    tool_call_id: str | None = None
    tool_name: str | None = None
    args: Any = None
    is_error: bool | None = None
    """Whether the tool call failed; None while it has no result."""
    line_id: str | None = None
    """The id of its line in the transcript, and its place there unless it is the first."""
    thinking: str = ""
    """What the model thought before it wrote; such a message has no content."""
    files: tuple[MessageFile, ...] = ()
    attachments: Sequence[AttachmentSummary] = ()
    """Of a user's message."""
