"""The SDK's result message -> a run's answer or error; pure."""

from collections.abc import Mapping
from typing import Literal

from claude_agent_sdk import ResultMessage
from claude_agent_sdk.types import AssistantMessageError

from app.events import AssistantFinal
from app.executors.api_format.failures import failure_of_status
from app.executors.port import BUDGET, MAX_TURNS, ExecutionFailed

_ANSWERED = {"end_turn", "stop_sequence", "tool_use"}
"""Stop reasons of a complete answer; a structured answer ends with `tool_use`."""


Stop = Literal["natural", "turns", "budget", "error"]
"""Why the CLI stopped: it finished, reached its limit of turns or dollars, or failed."""

_LIMITS: Mapping[str | None, Stop] = {
    "error_max_turns": "turns",
    "max_turns": "turns",
    "error_max_budget_usd": "budget",
    "budget_exhausted": "budget",
}


def stop_of(result: ResultMessage) -> Stop:
    """Why the CLI stopped: by `subtype`, `terminal_reason` and `stop_reason`, in this order.

    Each may be missing or ambiguous (an error of the API has the subtype "success" as well), so a limit
    counts whichever field names it, and an end is natural only if all three agree.
    """
    signals = (result.subtype, result.terminal_reason, result.stop_reason)
    for signal in signals:
        if (limit := _LIMITS.get(signal)) is not None:
            return limit
    answered = result.stop_reason is None or result.stop_reason in _ANSWERED
    natural = signals[:2] == ("success", "completed") and answered and not result.is_error
    return "natural" if natural else "error"


def answer(result: ResultMessage) -> AssistantFinal:
    """The answer of a run that finished, with or without a response format."""
    return AssistantFinal(content=result.result or "", structured_output=result.structured_output)


def failure(result: ResultMessage, stop: Stop, last_error: AssistantMessageError | None) -> ExecutionFailed:
    """Why a run failed; `last_error` is the error of its last assistant message."""
    if stop == "turns":
        return ExecutionFailed(*MAX_TURNS)
    if stop == "budget":
        return ExecutionFailed(*BUDGET)
    status = result.api_error_status
    if status is not None:
        return failure_of_status(status)
    # No status: the connection was refused or lost, or the answer itself was unusable.
    if last_error == "server_error":
        return ExecutionFailed("provider_unavailable")
    if last_error == "authentication_failed":
        return ExecutionFailed("provider_unavailable")
    return ExecutionFailed("internal")
