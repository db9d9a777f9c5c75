"""The OpenAPI document of the Messages API: what this server reads of it; all else is passed on."""

from typing import Any, Final

from app.http.anthropic.errors import AnthropicError
from app.http.problems import ERRORS

ERROR_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": AnthropicError} for status in ERRORS
}

_OPEN: Final = {"type": "object", "additionalProperties": True}


def _request(description: str) -> dict[str, Any]:
    properties = {"model": {"type": "string", "minLength": 1, "description": "The id of a model."}}
    schema = {**_OPEN, "required": ["model"], "properties": properties}
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"description": description, "required": True, "content": content}}


MESSAGE_REQUEST: Final = _request("The request as it is; with `stream` the answer is server-sent events.")
COUNT_REQUEST: Final = _request("The request as it is.")

MESSAGE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The provider's answer as it is.",
        "content": {
            "application/json": {"schema": _OPEN},
            "text/event-stream": {"schema": {"type": "string"}},
        },
    }
}
COUNT: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "The provider's answer as it is.",
        "content": {"application/json": {"schema": _OPEN}},
    }
}
