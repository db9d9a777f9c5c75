"""OpenAPI responses of the wire of OpenAI's API."""

from typing import Any, Final

from app.http.openai.errors import OpenAiError
from app.http.openai.schemas import ChatCompletion
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
