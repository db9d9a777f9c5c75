"""What a request amounts to: its graph, model, tools and limits; raises what is wrong with it."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Self

from app.billing.pricing import PriceList
from app.errors import FieldError, Invalid
from app.executors.control import MessageLimits, RunControl
from app.executors.port import RunContext
from app.gateway.estimate import text_size
from app.graphs.catalog import GraphCatalog
from app.graphs.spec import GraphSpec
from app.ids import ApiKeyId, RunKey
from app.models.registry import ModelOptions, ModelRegistry
from app.requests import GraphRunRequest
from app.runs.worker import FIRST_ATTEMPT
from app.tools.catalog import ToolCatalog
from app.usage import Attribution


class SystemMessageRefused(Invalid):
    """The graph takes no system messages from clients."""

    @classmethod
    def at(cls, location: int | str, spec: GraphSpec) -> Self:
        """This message, or this other field, would extend the system prompt."""
        field = f"messages.{location}.role" if isinstance(location, int) else location
        return cls.field(field, f"cannot be taken: the graph {spec.id} allows no system messages of clients")


@dataclass(frozen=True, slots=True)
class RunPlanner:
    """Resolves requests against the catalogues."""

    graphs: GraphCatalog
    models: ModelRegistry
    tools: ToolCatalog
    prices: PriceList
    timeout: timedelta
    """The server's deadline: the longest a run may take."""
    messages: MessageLimits
    """What may wait for a run's agent."""

    def plan(
        self,
        run: RunKey,
        request: GraphRunRequest,
        *,
        api_key_id: ApiKeyId,
        request_id: str | None,
    ) -> RunContext:
        """The run as it would be carried; raises `GraphNotFound` or `Invalid` naming the field."""
        spec = self.graphs.get(request.graph_id)
        check_system_messages(request, spec)
        check_files(request, spec)
        limits = request.limits.tightest(spec.limits)
        control = RunControl(self.messages)
        control.approvals.require(
            frozenset(spec.approve),
            mode=spec.permission_mode,
            timeout=timedelta(seconds=spec.approval_timeout_s),
        )
        model = self.models.resolve(request.model, spec.model)
        wanted = self._tools(request, spec)
        seconds = self.timeout.total_seconds()
        return RunContext(
            run=run,
            attempt=FIRST_ATTEMPT,
            spec=spec,
            model=model,
            tools=tuple(self.tools.get(tool_id) for tool_id in wanted if tool_id in spec.tools),
            remote_tools=tuple(tool_id for tool_id in wanted if tool_id not in spec.tools),
            limits=limits,
            timeout=timedelta(seconds=min(seconds, limits.timeout_s or seconds)),
            attribution=Attribution(api_key_id, request.graph_id, request_id),
            agent_models={
                name: self.models.resolve(None, agent.model)
                for name, agent in spec.agents.items()
                if agent.model is not None
            },
            control=control,
            options=self._options(model, spec),
        )

    def reservation(self, request: GraphRunRequest, context: RunContext) -> int:
        """Credits to set aside for a run: what its first message may cost, as far as that is known.

        The gateway knows all of it, and sets aside what each call may cost before it is made.
        """
        tools = (f"{tool.description}{json.dumps(tool.input_schema)}" for tool in context.tools)
        texts = [context.spec.system_prompt, *tools, *(message.text for message in request.messages)]
        images = sum(part.type == "image" for message in request.messages for part in message.parts)
        output_tokens = context.options.max_output_tokens
        size = text_size(context.model, texts, images=images, output_tokens=output_tokens)
        options, now = context.options, datetime.now(UTC)
        # Whichever of them answers, it must be covered.
        models = [context.model, *([options.fallback] if options.fallback else [])]
        cost = max(self.prices.price_of(model, at=now).cost_of(size.maximum) for model in models)
        return self.prices.credits_for(cost)

    def _options(self, model: str, spec: GraphSpec) -> ModelOptions:
        """The registry's, but for the thinking where the graph decides that."""
        options, budget = self.models.options(model), spec.thinking_budget_tokens
        if budget is None:
            return options
        if budget >= options.max_output_tokens:
            problem = f"the graph {spec.id} thinks longer than a message of {model} may be here"
            raise Invalid.field("model", problem)
        return replace(options, thinking=budget)

    def _tools(self, request: GraphRunRequest, spec: GraphSpec) -> tuple[str, ...]:
        if request.tool_ids is None:
            return spec.all_tools
        errors = [
            FieldError(f"toolIds.{index}", f"the graph {spec.id} has no tool {tool_id!r}")
            for index, tool_id in enumerate(request.tool_ids)
            if tool_id not in spec.all_tools
        ]
        if errors:
            message = f"toolIds: {errors[0].message}"
            raise Invalid(message, errors=errors)
        # In the graph's order, whatever the request's: what the provider caches begins with the tools.
        return tuple(tool_id for tool_id in spec.all_tools if tool_id in request.tool_ids)


def check_system_messages(request: GraphRunRequest, spec: GraphSpec) -> None:
    """Raise `Invalid` naming the first message that only a graph with `allow_system_messages` takes."""
    if spec.allow_system_messages:
        return
    for index, message in enumerate(request.messages):
        if message.role == "system":
            raise SystemMessageRefused.at(index, spec)


def check_files(request: GraphRunRequest, spec: GraphSpec) -> None:
    """Raise `Invalid` unless the graph takes these files."""
    if not request.files:
        return
    if not spec.native_tools:
        raise Invalid.field("files", f"the graph {spec.id} has no workspace to put them in")
    most = spec.workspace
    if len(request.files) > most.max_files:
        raise Invalid.field("files", f"the graph {spec.id} takes {most.max_files} at most")
    if sum(file.size for file in request.files) > most.max_bytes:
        raise Invalid.field("files", f"the graph {spec.id} takes {most.max_bytes} bytes at most")
