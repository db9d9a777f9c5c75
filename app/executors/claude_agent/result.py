"""How a run ended: the SDK's result message -> our answer or our error; pure."""

from collections.abc import Mapping
from typing import Literal

from claude_agent_sdk import ResultMessage
from claude_agent_sdk.types import AssistantMessageError

from app.events import AssistantFinal
from app.executors.port import BUDGET, MAX_TURNS, ExecutionFailed

_PROVIDER_REFUSES = {401, 402, 403}
_REQUEST_IS_INVALID = {400, 404, 413}
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500
_ANSWERED = {"end_turn", "stop_sequence", "tool_use"}
"""Stop reasons of a whole answer; `tool_use` is how a structured answer ends."""


Stop = Literal["natural", "turns", "budget", "error"]
"""Why the CLI stopped: it was done, its turns or its dollars were used up, or something went wrong."""

_LIMITS: Mapping[str | None, Stop] = {
    "error_max_turns": "turns",
    "max_turns": "turns",
    "error_max_budget_usd": "budget",
    "budget_exhausted": "budget",
}


def stop_of(result: ResultMessage) -> Stop:
    """Why the CLI stopped: `subtype`, `terminal_reason` and `stop_reason`, asked in this order.

    Any of them may be missing or say too little ("success" is how an error of the API is reported,
    too), so a limit counts whichever names it, and an end is natural only when all three agree.
    """
    signals = (result.subtype, result.terminal_reason, result.stop_reason)
    for signal in signals:
        if (limit := _LIMITS.get(signal)) is not None:
            return limit
    answered = result.stop_reason is None or result.stop_reason in _ANSWERED
    natural = signals[:2] == ("success", "completed") and answered and not result.is_error
    return "natural" if natural else "error"


def answer(result: ResultMessage) -> AssistantFinal:
    """The answer of a run that came to its own end, whatever it was asked to look like."""
    return AssistantFinal(content=result.result or "", structured_output=result.structured_output)


def failure(result: ResultMessage, stop: Stop, last_error: AssistantMessageError | None) -> ExecutionFailed:
    """Why a run failed; `last_error` is the error of its last assistant message."""
    if stop == "turns":
        return ExecutionFailed(*MAX_TURNS)
    if stop == "budget":
        return ExecutionFailed(*BUDGET)
    status = result.api_error_status
    if status is not None:
        return _api_failure(status)
    # No status: the connection was refused or lost, or the answer itself was no good.
    if last_error == "server_error":
        return ExecutionFailed("provider_unavailable")
    if last_error == "authentication_failed":
        return ExecutionFailed("provider_unavailable")
    return ExecutionFailed("internal")


def _api_failure(status: int) -> ExecutionFailed:
    if status in _PROVIDER_REFUSES or status >= _SERVER_ERROR:
        return ExecutionFailed("provider_unavailable")
    if status in _REQUEST_IS_INVALID:
        return ExecutionFailed("invalid_request")
    if status == _TOO_MANY_REQUESTS:
        return ExecutionFailed("rate_limit")
    return ExecutionFailed("internal")
