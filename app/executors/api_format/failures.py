"""Failed and refused calls of the Messages API -> how their run ends; pure."""

import re
from collections.abc import Mapping

from app.executors.port import (
    BUDGET,
    INTERNAL,
    MAX_TURNS,
    NO_CREDIT,
    NO_DATABASE,
    TIMEOUT,
    UNAVAILABLE,
    ExecutionFailed,
    RunOutcome,
)
from app.gateway.call import Refusal

REFUSAL_OUTCOMES: Mapping[Refusal | None, RunOutcome] = {
    "deadline": TIMEOUT,
    "turns": MAX_TURNS,
    "budget": BUDGET,
    "credit": NO_CREDIT,
    "database": NO_DATABASE,
    "journal": INTERNAL,
    "answer": UNAVAILABLE,
}
"""How a run ends whose call the gateway refused."""

_PROVIDER_REFUSES = {401, 402, 403}
_REQUEST_IS_INVALID = {400, 404, 413}
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500
_TOO_LARGE = 413
_ABOUT_ATTACHMENTS = re.compile(r"\b(images?|pdfs?|documents?|media|files?|urls?)\b", re.IGNORECASE)


def concerns_attachments(status: int | None, reason: str) -> bool:
    """Whether the provider may have refused a request because of an attachment in it."""
    return status == _TOO_LARGE or _ABOUT_ATTACHMENTS.search(reason) is not None


def failure_of_status(status: int) -> ExecutionFailed:
    """Why a run failed whose last call was answered with this HTTP status."""
    if status in _PROVIDER_REFUSES or status >= _SERVER_ERROR:
        return ExecutionFailed("provider_unavailable")
    if status in _REQUEST_IS_INVALID:
        return ExecutionFailed("invalid_request")
    if status == _TOO_MANY_REQUESTS:
        return ExecutionFailed("rate_limit")
    return ExecutionFailed("internal")
