"""Models as the Messages API lists them."""

from collections.abc import Sequence
from typing import Final, Literal, Self

from pydantic import BaseModel

UNKNOWN_DATE: Final = "1970-01-01T00:00:00Z"
"""What the Messages API itself says of a model whose date it does not know."""


class AnthropicModel(BaseModel):
    """A model."""

    type: Literal["model"] = "model"
    id: str
    display_name: str
    created_at: str = UNKNOWN_DATE


class AnthropicModels(BaseModel):
    """A page of models."""

    data: list[AnthropicModel]
    has_more: bool
    first_id: str | None
    last_id: str | None

    @classmethod
    def of(cls, ids: Sequence[str], *, has_more: bool) -> Self:
        return cls(
            data=[AnthropicModel(id=each, display_name=each) for each in ids],
            has_more=has_more,
            first_id=ids[0] if ids else None,
            last_id=ids[-1] if ids else None,
        )
