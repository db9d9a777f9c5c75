"""Generator: one prompt, one answer, executed as a run of the shipped graph `generate`."""

from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from app import errors
from app.events import RunError, Step
from app.executors.port import RunSchemas
from app.ids import RunKey
from app.models.registry import ModelRegistry, UnknownModel
from app.platform.db import DatabaseUnavailable
from app.platform.json_schema.checker import ValueUncheckable
from app.platform.json_schema.document import SchemaUnusable
from app.platform.json_schema.model_schema import ModelSchema
from app.requests.attribution import labels_in
from app.requests.messages import Message
from app.requests.outcome import ErrorCode, GraphFinal, SpentBudget
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest, ResponseFormat
from app.runs.requests.generate import GenerateObjectRequest, GenerateRequest
from app.runs.requests.posted import MessageOrigin, Posting
from app.runs.requests.schema_preparation import SchemaPreparation
from app.runs.service import RunService

GRAPH = "claude_agents:generate"


class NoMatchingObject(errors.InvalidOutput):
    """The model's answer contains no object that matches the schema."""


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


class IncompleteText(errors.InvalidOutput):
    """The model's answer is empty, or broke off."""


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
    "database_unavailable": DatabaseUnavailable,
}


def failure_of(end: RunError | GraphFinal, *, run_id: str | None = None) -> errors.AppError:
    """The error that is the answer of a run; of a budget with its id, and when it can be spent again."""
    failure = _FAILURES[end.error or "internal"]
    if end.budget is None:
        return failure(run_id=run_id)
    resets_at = None if end.resets_at is None else datetime.fromisoformat(end.resets_at)
    budget = SpentBudget(end.budget, resets_at)
    return failure(budget.sentence, run_id=run_id, members=budget.fields)


@dataclass(frozen=True, slots=True)
class Generation:
    """A started run, and what its answer has to be."""

    run: RunKey
    schema: ModelSchema | None
    """None for a text."""


class Generator:
    """Starts runs of the graph `generate` and waits for their answers."""

    def __init__(self, runs: RunService, models: ModelRegistry, schemas: SchemaPreparation) -> None:
        self._runs = runs
        self._models = models
        self._schemas = schemas

    async def start(
        self, caller: Principal, request: GenerateRequest, **posting: Unpack[Posting]
    ) -> Generation:
        """Accept the run, or join the existing one; raises what `RunService.start` raises."""
        if request.role is not None and request.role not in self._models.roles:
            known = ", ".join(self._models.roles)
            raise UnknownModel.field("role", f"there is no role {request.role!r}; known are {known}")
        schema = None
        if isinstance(request, GenerateObjectRequest):
            schema = await self._schemas.answer(request.schema_, field="schema", account_id=caller.account_id)
        origin = MessageOrigin(schemas=RunSchemas(schema))
        run = await self._runs.start(caller, _as_run(request), origin=origin, **posting)
        return Generation(run.key, schema)

    async def answer(self, generation: Generation) -> GraphFinal:
        """The answer; raises what `failure_of` the run is, or `NoMatchingObject`."""
        run, schema = generation.run, generation.schema
        final = await self._runs.wait(run)
        if schema is not None and not final.ok and await self._has_answered(run, final):
            raise NoMatchingObject(run_id=run.run_id)
        if schema is None and final.finish_reason == "max_turns":
            raise IncompleteText(run_id=run.run_id)
        if final.error is not None:
            raise failure_of(final, run_id=final.run_id)
        if schema is None:
            return final
        # The executor checks this too, but the API guarantees it for every executor.
        owner, output = str(run.account_id), final.structured_output
        try:
            mismatch = await self._schemas.checker.mismatch(schema.document, output, owner=owner)
        except (SchemaUnusable, ValueUncheckable) as error:
            raise NoMatchingObject(run_id=run.run_id) from error
        if mismatch is not None:
            raise NoMatchingObject(run_id=run.run_id)
        return final

    async def _has_answered(self, run: RunKey, final: GraphFinal) -> bool:
        """Whether a run failed only because no message of the model contained the object."""
        if final.error != "internal" and final.finish_reason != "max_turns":
            return False
        async with aclosing(self._runs.follow(run)) as batches:
            async for batch in batches:
                if any(isinstance(entry.event, Step) for entry in batch):
                    return True
        return False


def _as_run(request: GenerateRequest) -> GraphRunRequest:
    response_format, limits = None, request.limits
    if isinstance(request, GenerateObjectRequest):
        response_format = ResponseFormat.of(type="json_schema", schema_=request.schema_)
    else:
        # Only an object may be sent back to the model.
        limits = limits.model_copy(update={"max_turns": 1})
    system = [] if request.system is None else [Message.of(role="system", content=request.system)]
    return GraphRunRequest.of(
        run_id=request.run_id,
        graph_id=GRAPH,
        messages=[*system, Message.of(role="user", content=request.prompt)],
        model=request.model if request.role is None else request.role,
        response_format=response_format,
        limits=limits,
        **labels_in(request),
    )
