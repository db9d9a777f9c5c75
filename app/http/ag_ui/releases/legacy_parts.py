"""Attachments as releases of @ag-ui/client before 1.0 post them: parts of the type `binary`."""

from typing import Any

from app.errors import Invalid
from app.http.ag_ui.readable import UNREADABLE_PART, last_user_message


def with_current_parts(messages: object) -> object:
    """The posted messages with `binary` parts as parts of AG-UI 1.0; what is malformed stays as it is."""
    if not isinstance(messages, list):
        return messages
    return [_message(message) for message in messages]


def require_media_types(messages: object) -> None:
    """Raise `Invalid` for data without a media type in the user's last message."""
    if not isinstance(messages, list) or (index := last_user_message(messages)) < 0:
        return
    parts = messages[index].get("content")
    for number, part in enumerate(parts if isinstance(parts, list) else ()):
        if (
            _is_binary(part)
            and isinstance(part.get("data"), str)
            and not isinstance(part.get("mimeType"), str)
        ):
            field = f"messages.{index}.content.{number}.mimeType"
            raise Invalid.field(field, "must be the media type of the data")


def _message(message: object) -> object:
    if not (isinstance(message, dict) and isinstance(parts := message.get("content"), list)):
        return message
    return {**message, "content": [_part(part) if _is_binary(part) else part for part in parts]}


def _is_binary(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "binary"


def _part(part: dict[str, Any]) -> dict[str, Any]:
    """The part of AG-UI 1.0, whatever the media type; one that cannot be read if it has no content."""
    media_type, data, url = (part.get(name) for name in ("mimeType", "data", "url"))
    if isinstance(data, str) and data:
        source = {"type": "data", "value": data, "mimeType": media_type}
    elif isinstance(url, str) and url:
        source = {"type": "url", "value": url, "mimeType": media_type}
    else:
        return dict(UNREADABLE_PART)
    return {"type": "document", "source": source}
