"""Errors of OAuth: `{"error", "error_description"}` (RFC 6749, 5.2)."""

from typing import Any, Final

from pydantic import BaseModel

from app.http.foreign_errors import ErrorForm, ForeignError

PATH: Final = "/anthropic/oauth"

_UNPROCESSABLE, _BAD_REQUEST, _SERVER_ERROR = 422, 400, 500
_CODES: Final = {
    *("authorization_pending", "slow_down", "access_denied", "expired_token"),
    *("invalid_grant", "unsupported_grant_type"),
}
"""Ours that are those of OAuth, too."""
_RENAMED: Final = {"too_many_logins": "slow_down"}


class OAuthError(BaseModel):
    """An error."""

    error: str
    error_description: str


class OAuthErrors(ErrorForm):
    """Answers with errors as clients of OAuth read them."""

    paths = (PATH, "/anthropic/.well-known")

    def translate(self, problem: dict[str, Any], headers: dict[bytes, bytes]) -> ForeignError:  # noqa: ARG002
        status, code = problem["status"], _RENAMED.get(problem["code"], problem["code"])
        if code not in _CODES:
            code = "temporarily_unavailable" if status >= _SERVER_ERROR else "invalid_request"
        status = _BAD_REQUEST if status == _UNPROCESSABLE else status
        return ForeignError(status, {"error": code, "error_description": problem["detail"]}, [])
