"""The gateway's own error responses, in the format of the Messages API."""

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from app.platform.server.loopback import Send


class ErrorResponse(NamedTuple):
    """An error as the agent gets it."""

    status: int
    type: str
    message: str
    retryable: bool = False


UNKNOWN = ErrorResponse(404, "not_found_error", "not found")
ENDED = ErrorResponse(403, "permission_error", "this run has ended")
REFUSED = ErrorResponse(402, "billing_error", "this run may make no more calls")
UNREACHABLE = ErrorResponse(502, "api_error", "the provider cannot be reached", retryable=True)
PROVIDER_REFUSES = ErrorResponse(502, "api_error", "the provider refuses this server's operator")
UNUSABLE = ErrorResponse(502, "api_error", "the provider's answer cannot be used")
TOO_LARGE = ErrorResponse(413, "request_too_large", "the request is too large")

BODY_ERRORS: Mapping[int, ErrorResponse] = {
    400: ErrorResponse(400, "invalid_request_error", "the request ended early"),
    408: ErrorResponse(408, "timeout_error", "the request took too long", retryable=True),
    413: TOO_LARGE,
    529: ErrorResponse(529, "overloaded_error", "too much is being sent", retryable=True),
}
"""The response to a refused body, by status."""


async def send_error(
    send: Send, response: ErrorResponse, *, headers: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    """Send an error response, with further headers."""
    body = {"type": "error", "error": {"type": response.type, "message": response.message}}
    all_headers = [(b"content-type", b"application/json"), *headers]
    if not response.retryable:
        # A retry would be refused as well.
        all_headers.append((b"x-should-retry", b"false"))
    if response.status == BODY_ERRORS[408].status:
        # The rest of the body may never arrive.
        all_headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": response.status, "headers": all_headers})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})
