"""How a graph is shown to people: its title, its icon and what they may ask it."""

import re
from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, model_validator

from app.platform.serialization.strict_yaml import StrictModel
from app.requests.blank import require_visible

_EMOJI: Final = re.compile(
    # Symbols, and after the first also what joins, colours and selects them.
    "[\u2190-\u2bff\U0001f000-\U0001faff][\u2190-\u2bff\U0001f000-\U0001faff\u200d\ufe0f\U000e0020-\U000e007f]{0,11}"
)


def _is_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be one line of printable characters")
    return require_visible(text)


def _is_emoji(icon: str) -> str:
    if not _EMOJI.fullmatch(icon):
        raise ValueError("must be an emoji")
    return icon


Title = Annotated[str, Field(max_length=60), AfterValidator(_is_line)]
Icon = Annotated[str, AfterValidator(_is_emoji)]


class Suggestion(StrictModel):
    """A message that people may begin with; in a file also one text that is both."""

    title: Annotated[str, Field(max_length=120), AfterValidator(_is_line)]
    message: Annotated[str, Field(max_length=4_000), AfterValidator(require_visible)]

    @model_validator(mode="before")
    @classmethod
    def _of_text(cls, given: Any) -> Any:
        return {"title": given, "message": given} if isinstance(given, str) else given


Suggestions = Annotated[tuple[Suggestion, ...], Field(max_length=8)]
