"""JSON of health and readiness."""

from typing import Literal

from app.http.response_model import ResponseModel


class Health(ResponseModel):
    """Health of the server."""

    status: str


class Readiness(Health):
    """Readiness of the server, and of the model provider."""

    provider: Literal["ok", "unusable", "unknown"]
    """Whether the provider accepted our key or login at the last request."""
