"""What the gateway answers by itself, in the words of the Messages API."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from app.server.loopback import Send


class ErrorResponse(NamedTuple):
    """An error as an agent reads it."""

    status: int
    type: str
    message: str
    retryable: bool = False


UNKNOWN = ErrorResponse(404, "not_found_error", "not found")
ENDED = ErrorResponse(403, "permission_error", "this run has ended")
REFUSED = ErrorResponse(402, "billing_error", "this run may not call any more")
UNREACHABLE = ErrorResponse(502, "api_error", "the provider cannot be reached", retryable=True)
UNUSABLE = ErrorResponse(502, "api_error", "the provider's answer cannot be used")
TOO_LARGE = ErrorResponse(413, "request_too_large", "the request is too large")

BODY_ERRORS: Mapping[int, ErrorResponse] = {
    400: ErrorResponse(400, "invalid_request_error", "the request ended early"),
    408: ErrorResponse(408, "timeout_error", "the request took too long", retryable=True),
    413: TOO_LARGE,
    529: ErrorResponse(529, "overloaded_error", "too much is being sent", retryable=True),
}
"""Why a body is not taken, by status."""


async def send_error(send: Send, answer: ErrorResponse) -> None:
    """Answer with an error."""
    error: Mapping[str, Any] = {"type": "error", "error": {"type": answer.type, "message": answer.message}}
    headers = [(b"content-type", b"application/json")]
    if not answer.retryable:
        # Another try would be refused as well.
        headers.append((b"x-should-retry", b"false"))
    if answer.status == BODY_ERRORS[408].status:
        # The rest may never come.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(error).encode()})
