"""The API document."""

from functools import cache
from typing import Any

from app.http.app import documented_app


@cache
def api_document() -> dict[str, Any]:
    """Made once a process: it takes a second of CPU. It is not to be changed, nor made to collect tests."""
    return documented_app().openapi()
