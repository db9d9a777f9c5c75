"""Content of tool results in the format of the Messages API; pure."""

from typing import Any

from runtally.tools.content import ToolContent, ToolImage, ToolText


def content_block(content: ToolContent) -> dict[str, Any]:
    """The content block."""
    match content:
        case ToolText(text):
            return {"type": "text", "text": text}
        case ToolImage(media_type, data):
            return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
