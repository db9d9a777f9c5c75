"""OpenAPI responses of the wire of OpenAI's API."""

from typing import Any, Final

from app.http.openai.chat.schemas import ChatCompletion
from app.http.openai.errors import OpenAiError
from app.http.openai.responses.schemas import OpenAiResponse
from app.http.openapi.document import ERRORS
from app.http.openapi.headers import header

ERROR_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": OpenAiError} for status in ERRORS
}

COMPLETION: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "model": ChatCompletion,
        "description": (
            "The completion; with `stream`, server-sent events: each `data:` is a `chat.completion.chunk` as "
            "JSON, the last one `[DONE]`."
        ),
        **header("Runtally-Ignored"),
        "content": {"text/event-stream": {}},
    }
}

RESPONSE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "model": OpenAiResponse,
        "description": (
            "The response; with `stream`, server-sent events: each has a `type` and a `sequence_number`, the "
            "last one is `response.completed`, `response.incomplete` or `response.failed`."
        ),
        **header("Runtally-Ignored"),
        "content": {"text/event-stream": {}},
    }
}
