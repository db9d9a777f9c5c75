"""How a run has ended, as events of its session say it; pure."""

from collections.abc import Mapping
from typing import Any, Final

from app.events import RunError
from app.requests.outcome import ErrorCode, FinishReason

_KINDS: Final[Mapping[ErrorCode, str]] = {
    "insufficient_credits": "billing_error",
    "budget_reached": "billing_error",
    "rate_limit": "model_rate_limited_error",
    "provider_unavailable": "model_overloaded_error",
    "provider_refused": "model_request_failed_error",
    "length": "model_request_failed_error",
    "context": "model_request_failed_error",
}
"""The types of errors that their clients know; all others are `unknown_error`."""


def stop_reason_of(error: RunError | None, finish: FinishReason) -> dict[str, Any]:
    """Why the session is idle now."""
    if error is None or error.error == "aborted":
        return {"type": "end_turn"}
    if error.error == "refused":
        return {"type": "refusal"}
    if error.error == "budget_reached" or _is_limit(error, finish):
        return {"type": "budget_reached"}
    return {"type": "retries_exhausted"}


def error_of(error: RunError | None, finish: FinishReason) -> dict[str, Any] | None:
    """What went wrong; None if the stop reason says all of it."""
    if error is None or error.error in {"aborted", "refused"} or _is_limit(error, finish):
        return None
    kind = _KINDS.get(error.error, "unknown_error")
    budget = f" The budget {error.budget} is used up." if error.budget else ""
    resets = f" It starts again at {error.resets_at}." if error.resets_at else ""
    message = f"The run ended with {error.error} ({finish}).{budget}{resets}"
    return {"type": kind, "message": message, "retry_status": {"type": "exhausted"}}


def _is_limit(error: RunError, finish: FinishReason) -> bool:
    """Whether the run was at a limit of its own: of dollars, tokens or output."""
    return error.error == "rate_limit" and finish == "budget"
