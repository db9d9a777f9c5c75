"""Generator: one prompt, one answer, executed as a run of the shipped graph `generate`."""

from contextlib import aclosing
from dataclasses import dataclass
from typing import Unpack

from app import errors
from app.events import Step
from app.executors.port import RunSchemas
from app.ids import RunKey
from app.models.registry import ModelRegistry, UnknownModel
from app.platform.json_schema.checker import ValueUncheckable
from app.platform.json_schema.document import SchemaUnusable
from app.platform.json_schema.model_schema import ModelSchema
from app.requests.attribution import labels_in
from app.requests.messages import Message
from app.requests.outcome import GraphFinal
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest, ResponseFormat
from app.runs.events.failures import failure_of
from app.runs.requests.generate import GenerateObjectRequest, GenerateRequest
from app.runs.requests.posted import MessageOrigin, Posting
from app.runs.requests.schema_preparation import SchemaPreparation
from app.runs.service import RunService

GRAPH = "claude_agents:generate"


class NoMatchingObject(errors.InvalidOutput):
    """The model's answer contains no object that matches the schema."""


class IncompleteText(errors.InvalidOutput):
    """The model's answer is empty, or broke off."""


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
