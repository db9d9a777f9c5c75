"""Tool calls of the model, and the content of their results in the format of the Messages API; pure."""

from dataclasses import dataclass
from typing import Any

from runtally.tools.content import ToolContent, ToolImage, ToolText


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    """A tool call of the model."""

    call_id: str
    name: str
    args: Any
    """As the model wrote them; text if they are not JSON."""


def content_block(content: ToolContent) -> dict[str, Any]:
    match content:
        case ToolText(text):
            return {"type": "text", "text": text}
        case ToolImage(media_type, data):
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
