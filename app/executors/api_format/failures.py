"""Failed and refused calls of the Messages API -> how their run ends; pure."""

import json
import re
from collections.abc import Mapping

from app.events import RunWarning
from app.executors.api_format.refused_part import is_about_earlier, refused_part
from app.executors.port import (
    ACCOUNT_BUDGET,
    BUDGET,
    INTERNAL,
    INVALID_REQUEST,
    MAX_TURNS,
    NO_CREDIT,
    NO_DATABASE,
    PROVIDER_REFUSED,
    RATE_LIMITED,
    TIMEOUT,
    UNAVAILABLE,
    RunOutcome,
)
from app.gateway.call import Refusal, Rejection

_REFUSAL_OUTCOMES: Mapping[Refusal | None, RunOutcome] = {
    "deadline": TIMEOUT,
    "turns": MAX_TURNS,
    "budget": BUDGET,
    "credit": NO_CREDIT,
    "account_budget": ACCOUNT_BUDGET,
    "database": NO_DATABASE,
    "journal": INTERNAL,
    "answer": UNAVAILABLE,
    "provider": PROVIDER_REFUSED,
}

NO_ANSWER: Mapping[str | None, RunOutcome] = {
    "refusal": RunOutcome("refused", "refused"),
    "max_tokens": RunOutcome("length", "length"),
    "model_context_window_exceeded": RunOutcome("context", "context"),
}
"""How a run ends whose last message the model ended for one of these reasons."""

_PROVIDER_REFUSES = {401, 402, 403}
_REQUEST_IS_INVALID = {400, 404, 413}
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500
_TOO_LARGE = 413
TOO_LONG = "prompt is too long"
"""In an error text of the provider."""
_ABOUT_ATTACHMENTS = re.compile(r"\b(images?|pdfs?|documents?|media|files?|urls?)\b", re.IGNORECASE)


def outcome_of_refusal(refusal: Refusal | None, last_stop: str | None) -> RunOutcome | None:
    """How a run ends whose call the gateway refused after a message with this stop reason."""
    outcome = _REFUSAL_OUTCOMES.get(refusal)
    # The turn that is missing would only have continued the message.
    return NO_ANSWER.get(last_stop, MAX_TURNS) if outcome == MAX_TURNS else outcome


def concerns_attachments(status: int | None, reason: str) -> bool:
    """Whether the provider may have refused a request because of an attachment in it."""
    return status == _TOO_LARGE or _ABOUT_ATTACHMENTS.search(reason) is not None


def rejected_part(rejection: Rejection) -> RunWarning | None:
    """The warning that names the refused attachment; None if the reason is something else."""
    if TOO_LONG in rejection.reason or not concerns_attachments(rejection.status, rejection.reason):
        return None
    try:
        messages = json.loads(rejection.request)["messages"]
        is_of_last = not is_about_earlier(rejection.reason, messages)
        refused = refused_part(rejection.reason, messages) if is_of_last else None
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        # Agents write their requests.
        return None
    return None if refused is None else RunWarning(code="attachment_refused", message=refused, names=[])


def failure_of_status(status: int) -> RunOutcome:
    """Why a run failed whose last call was answered with this HTTP status."""
    if status in _PROVIDER_REFUSES or status >= _SERVER_ERROR:
        return UNAVAILABLE
    if status in _REQUEST_IS_INVALID:
        return INVALID_REQUEST
    return RATE_LIMITED if status == _TOO_MANY_REQUESTS else INTERNAL
