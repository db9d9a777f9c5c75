"""The error that a client gets of a run that ended with one; pure."""

from datetime import datetime

from app import errors
from app.events import RunError
from app.requests.outcome import ErrorCode, GraphFinal, SpentBudget


class RunOutOfTime(errors.TimedOut):
    """The run reached its time limit or turn limit before it had an answer."""


class RunAborted(errors.Conflict):
    """The run was cancelled before it had an answer."""

    code = "aborted"


class RunOutOfCredit(errors.PaymentRequired):
    """The account's credit was used up before the run had an answer."""


class RunOutOfBudget(errors.PaymentRequired):
    """A budget was used up before the run had an answer."""

    code = "budget_reached"


class RunRateLimited(errors.TooMany):
    """The run reached its budget, or the model's provider limits the request rate; try again later."""


class ProviderUnavailable(errors.Unavailable):
    """The model's provider is unavailable; try again later."""

    code = "provider_unavailable"


class ToolServerUnavailable(errors.Unavailable):
    """A tool server that the run needs is unavailable; try again later."""

    code = "tool_server_unavailable"


class ProviderRefused(errors.Unavailable):
    """The model's provider refuses this server's calls; its operator must act."""

    code = "provider_refused"


class AgentUnavailable(errors.Unavailable):
    """The agent's program failed on this server; try again later."""

    code = "agent_unavailable"


class RefusedByProvider(errors.Invalid):
    """The model's provider rejected the request as invalid."""


class ModelRefused(errors.Invalid):
    """The model refuses to answer this."""

    code = "refused"


class AnswerTooLong(errors.Invalid):
    """The answer is longer than a message of the model may be."""

    code = "length"


class ContextFull(errors.Invalid):
    """The prompt and the answer are longer than the context of the model."""

    code = "context"


class RunWithoutDatabase(errors.Unavailable):
    """Storage of this server is unavailable; try again later."""

    code = "database_unavailable"


class GenerationFailed(errors.AppError):
    """The run ended without an answer."""


_FAILURES: dict[ErrorCode, type[errors.AppError]] = {
    "invalid_request": RefusedByProvider,
    "not_found": errors.NotFound,
    "timeout": RunOutOfTime,
    "aborted": RunAborted,
    "rate_limit": RunRateLimited,
    "internal": GenerationFailed,
    "insufficient_credits": RunOutOfCredit,
    "budget_reached": RunOutOfBudget,
    "provider_unavailable": ProviderUnavailable,
    "provider_refused": ProviderRefused,
    "agent_unavailable": AgentUnavailable,
    "refused": ModelRefused,
    "length": AnswerTooLong,
    "context": ContextFull,
    "tool_server_unavailable": ToolServerUnavailable,
    "database_unavailable": RunWithoutDatabase,
}


def failure_of(end: RunError | GraphFinal, *, run_id: str | None = None) -> errors.AppError:
    """The error that is the answer of a run; of a budget with its id, and when it can be spent again."""
    failure = _FAILURES[end.error or "internal"]
    if end.budget is None:
        return failure(run_id=run_id)
    resets_at = None if end.resets_at is None else datetime.fromisoformat(end.resets_at)
    budget = SpentBudget(end.budget, resets_at)
    return failure(budget.sentence, run_id=run_id, members=budget.fields)
