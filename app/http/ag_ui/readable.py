"""What can be read of earlier messages that are not valid, so that none of them ends a thread; pure."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ag_ui.core import Message
from ag_ui.core.types import ContentPart
from pydantic import TypeAdapter, ValidationError

_MESSAGE: Final[TypeAdapter[Any]] = TypeAdapter(Message)
_PART: Final[TypeAdapter[Any]] = TypeAdapter(ContentPart)

UNREADABLE_PART: Final[Mapping[str, Any]] = {
    "type": "document",
    "source": {"type": "data", "value": "", "mimeType": "application/octet-stream"},
}
"""In the place of a part that cannot be read; the model gets a note for it, as for any part of its type."""


def with_readable_earlier(messages: object) -> object:
    """The posted messages, those before the user's last one as far as they can be read."""
    if not isinstance(messages, list):
        return messages
    last = last_user_message(messages)
    return [_readable(message) if index < last else message for index, message in enumerate(messages)]


def last_user_message(messages: list[Any]) -> int:
    users = (index for index, message in enumerate(messages) if _role(message) == "user")
    return max(users, default=-1)


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None


def _readable(message: Any) -> Any:
    return next(each for each in _forms(message) if _is_valid(_MESSAGE, each))


def _forms(message: Any) -> Iterator[Any]:
    """The message, then less and less of it."""
    yield message
    fields = message if isinstance(message, dict) else {}
    role, content = fields.get("role"), fields.get("content")
    if role == "user" and isinstance(content, list):
        parts = [part if _is_valid(_PART, part) else UNREADABLE_PART for part in content]
        yield {**fields, "content": parts}
    elif role in ("assistant", "tool"):
        yield {**fields, "content": _text_of(content)}
        yield {"id": fields.get("id"), "role": role, "content": _text_of(content)}
    # A system message without content is ignored, and the messages after it keep their places.
    message_id = fields.get("id")
    yield {"id": message_id if isinstance(message_id, str) else "", "role": "system", "content": ""}


def _text_of(content: Any) -> str:
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    return (
        content if isinstance(content, str) else "\n\n".join(text for text in texts if isinstance(text, str))
    )


def _is_valid(adapter: TypeAdapter[Any], value: Any) -> bool:
    try:
        adapter.validate_python(value)
    except ValidationError:
        return False
    return True
