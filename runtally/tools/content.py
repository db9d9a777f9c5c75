"""The content of a tool's result as the model gets it: texts and images."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

ImageMediaType = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


@dataclass(frozen=True, slots=True)
class ToolText:
    """A text; never empty."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolImage:
    """An image; `data` is base64."""

    media_type: ImageMediaType
    data: str


ToolContent: TypeAlias = ToolText | ToolImage


def text_of(content: tuple[ToolContent, ...]) -> str:
    """All texts, joined."""
    return "\n\n".join(each.text for each in content if isinstance(each, ToolText))
