"""Checks of the messages of a request, which may be omitted where another run's are answered again."""

from typing import Any

from pydantic import Field, ValidationInfo
from pydantic_core import PydanticCustomError

MAY_BE_OMITTED: Any = Field(default=None, validate_default=True, json_schema_extra={"minItems": 1})


def given_or_repeated(messages: object, info: ValidationInfo) -> object:
    """No messages if they are omitted and there is a `fork_from`; otherwise at least one is required."""
    if messages == []:
        raise ValueError("must have at least 1 item")
    if messages is not None:
        return messages
    if info.data.get("fork_from") is None:
        kind = "missing"
        raise PydanticCustomError(kind, "is required")
    return []


def require_users_last(messages: list[Any]) -> list[Any]:
    """The messages, each with a `role`; an error if the last one is not the user's."""
    if messages and messages[-1].role != "user":
        raise ValueError("the last message must be the user's")
    return messages
