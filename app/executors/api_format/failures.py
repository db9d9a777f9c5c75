"""Failed and refused calls of the Messages API -> how their run ends; pure."""

import json
import re
from collections.abc import Mapping

from app.events import RunWarning
from app.executors import port
from app.executors.api_format.refused_part import is_about_earlier, refused_part
from app.gateway.call import Refusal, Rejection

_REFUSAL_OUTCOMES: Mapping[Refusal | None, port.RunOutcome] = {
    "deadline": port.TIMEOUT,
    "turns": port.MAX_TURNS,
    "budget": port.BUDGET,
    "credit": port.NO_CREDIT,
    "account_budget": port.ACCOUNT_BUDGET,
    "database": port.NO_DATABASE,
    "journal": port.NO_DATABASE,
    "answer": port.UNAVAILABLE,
    "provider": port.PROVIDER_REFUSED,
}

NO_ANSWER: Mapping[str | None, port.RunOutcome] = {
    "refusal": port.RunOutcome("refused", "refused"),
    "max_tokens": port.RunOutcome("length", "length"),
    "model_context_window_exceeded": port.RunOutcome("context", "context"),
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


def outcome_of_refusal(refusal: Refusal | None, last_stop: str | None) -> port.RunOutcome | None:
    """How a run ends whose call the gateway refused after a message with this stop reason."""
    outcome = _REFUSAL_OUTCOMES.get(refusal)
    # The turn that is missing would only have continued the message.
    return NO_ANSWER.get(last_stop, port.MAX_TURNS) if outcome == port.MAX_TURNS else outcome


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
        return refused_part(rejection.reason, messages) if is_of_last else None
    except (ValueError, KeyError, IndexError, TypeError, RecursionError):
        # Agents write their requests.
        return None


def failure_of_status(status: int) -> port.RunOutcome:
    """Why a run failed whose last call was answered with this HTTP status."""
    if status in _PROVIDER_REFUSES or status >= _SERVER_ERROR:
        return port.UNAVAILABLE
    if status in _REQUEST_IS_INVALID:
        return port.INVALID_REQUEST
    return port.RATE_LIMITED if status == _TOO_MANY_REQUESTS else port.INTERNAL
