"""What the end of an AG-UI run contains; pure."""

from typing import Any, Final

from ag_ui.core import TokenUsage

from app.events import AssistantFinal, Done
from app.requests.outcome import ErrorCode, FinalUsage

ERROR_MESSAGES: Final[dict[ErrorCode, str]] = {
    "invalid_request": "The request is not valid.",
    "not_found": "A resource that the run needs does not exist.",
    "timeout": "The run took too long or too many turns.",
    "rate_limit": "A limit of the run or of the model provider has been reached.",
    "internal": "An internal error occurred.",
    "insufficient_credits": "The account has no credit left.",
    "budget_reached": "A budget of the account is used up.",
    "provider_unavailable": "The model provider is unavailable or rejects our requests.",
    "provider_refused": "The model provider refuses this server's calls; its operator must act.",
    "agent_unavailable": "The agent's program failed on this server; try again later.",
    "refused": "The model refuses to answer this.",
    "length": "The answer is longer than a message of the model may be.",
    "context": "The prompt and the answer are longer than the context of the model.",
    "tool_server_unavailable": "A tool server that the run needs is unavailable; try again later.",
    "database_unavailable": "The database or the storage of contents is unavailable; try again later.",
}


def token_usage(usage: FinalUsage) -> list[TokenUsage] | None:
    """One entry without a model name, because fallbacks and subagents may have used other models.

    None if nothing was counted: a zero would claim that nothing was used.
    """
    if usage == FinalUsage():
        return None
    tokens = TokenUsage(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
    )
    return [tokens]


def run_result(final: AssistantFinal | None, done: Done) -> dict[str, Any] | None:
    """The answer, and how much of the context it has used; None if there is no answer."""
    if final is None:
        return None
    context = done.model_dump(by_alias=True, include={"context_used", "context_window"})
    structured = {} if final.structured_output is None else {"structuredOutput": final.structured_output}
    return {"content": final.content, **structured, **context}
