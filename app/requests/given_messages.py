"""Checks of the messages of a request, which may be omitted: for an input, or for those of another run."""

import json
from typing import Any

from pydantic import Field, ValidationError, ValidationInfo
from pydantic_core import InitErrorDetails, PydanticCustomError

from app.requests.blank import blank_error
from app.requests.messages import Message, is_blank_content

MAY_BE_OMITTED: Any = Field(default=None, validate_default=True, json_schema_extra={"minItems": 1})


def given_or_repeated(messages: object, info: ValidationInfo) -> object:
    """At least one is required, unless there is an `input`, which is the message then, or a `fork_from`."""
    if messages == []:
        raise ValueError("must have at least 1 item")
    given = info.data.get("input")
    if messages is not None:
        if given is not None:
            raise ValueError("must be omitted if there is an input, which is the user's message")
        return messages
    if given is not None:
        # JSON and nothing else: no value in it can end it and go on as another text.
        return [{"role": "user", "content": json.dumps(given, ensure_ascii=False)}]
    if info.data.get("fork_from") is None:
        kind = "missing"
        raise PydanticCustomError(kind, "is required")
    return []


def require_users_last(messages: list[Message]) -> list[Message]:
    """The messages; an error if the last one is not the user's, or is blank."""
    if not messages:
        return messages
    if messages[-1].role != "user":
        raise ValueError("the last message must be the user's")
    if is_blank_content(messages[-1].content):
        place = (len(messages) - 1, "content")
        # Merged into the errors of the request, with the place of the field.
        raise ValidationError.from_exception_data(
            "messages", [InitErrorDetails(type=blank_error(), loc=place, input=messages[-1].content)]
        )
    return messages
