"""The SDK's result message -> a run's answer or error; pure."""

from collections.abc import Mapping
from typing import Literal

from claude_agent_sdk import ResultMessage

from app.events import AssistantFinal
from app.executors.api_format.failures import NO_ANSWER, failure_of_status
from app.executors.port import BUDGET, INTERNAL, INVALID_REQUEST, MAX_TURNS, UNAVAILABLE, RunOutcome

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
_LIMIT_OUTCOMES: Mapping[Stop, RunOutcome] = {"turns": MAX_TURNS, "budget": BUDGET}
_PROVIDER_ERRORS = {"server_error", "authentication_failed", "unknown"}
"""Without a status: the connection was refused, lost, or (`unknown`) silent for too long."""


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


def answer(result: ResultMessage, last_text: str) -> AssistantFinal:
    """The answer of a run that finished, with or without a response format.

    Of a message with several texts, as each citation begins one, the CLI's result is only the last.
    """
    text = result.result or ""
    content = last_text if last_text.endswith(text) and result.structured_output is None else text
    return AssistantFinal(content=content, structured_output=result.structured_output)


def failure(
    result: ResultMessage, stop: Stop, *, last_error: str | None, last_stop: str | None
) -> RunOutcome:
    """Why a run failed; by the error and the stop reason of its last assistant messages, too."""
    if (limit := _LIMIT_OUTCOMES.get(stop)) is not None:
        return limit
    if result.api_error_status is not None:
        return failure_of_status(result.api_error_status)
    if result.terminal_reason == "blocking_limit":
        # The CLI refuses the prompt itself, as the provider would.
        return INVALID_REQUEST
    # The CLI's result does not have the stop reason of a message that is too long.
    stop_reason = last_stop if last_error == "max_output_tokens" else result.stop_reason
    # Without any of these the answer itself was unusable.
    return NO_ANSWER.get(stop_reason, UNAVAILABLE if last_error in _PROVIDER_ERRORS else INTERNAL)
