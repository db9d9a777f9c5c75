"""OpenAPI responses of chat completions."""

from typing import Any, Final

from app.http.openai.chat.schemas import ChatCompletion
from app.http.openapi.headers import header

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
