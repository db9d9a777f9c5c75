"""OpenAPI responses of responses."""

from typing import Any, Final

from app.http.openai.responses.schemas import ItemList, OpenAiResponse
from app.http.openapi.headers import header

WHOLE: Final[dict[int | str, dict[str, Any]]] = {200: {"model": OpenAiResponse}}

ITEMS: Final[dict[int | str, dict[str, Any]]] = {200: {"model": ItemList}}

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
