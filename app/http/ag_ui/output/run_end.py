"""What the end of an AG-UI run contains; pure."""

from typing import Any

from ag_ui.core import TokenUsage

from app.events import AssistantFinal, Done
from app.requests.outcome import FinalUsage


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
