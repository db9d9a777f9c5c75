"""OpenAPI responses of the wire of OpenAI's API."""

from typing import Any, Final

from app.http.openai.errors import OpenAiError
from app.http.problems import ERRORS

ERROR_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": OpenAiError} for status in ERRORS
}
