"""RunPlanner: resolves a request to an immutable RunPlan: graph, model, tools, limits."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Self

from app.billing.prices.price_list import PriceList
from app.errors import FieldError, Invalid
from app.executors.port import FIRST_ATTEMPT, RunPlan
from app.executors.tools.client_tools import split_by_graph
from app.executors.tools.questions import question_tool
from app.gateway.estimate import text_size
from app.graphs.catalog import GraphCatalog
from app.graphs.spec import GraphSpec
from app.ids import ApiKeyId, RunKey
from app.models.registry import ModelRegistry
from app.models.request_options import chosen_options
from app.requests.messages import Attachment, DocumentPart
from app.requests.principal import GraphNotAllowed, ModelNotAllowed, Principal
from app.requests.run_request import GraphRunRequest
from app.runs.requests.attachments import DEFAULT_RULES, AttachmentRules
from app.tools.catalog import ToolCatalog
from app.tools.skills.library import NO_SKILLS, SkillLibrary
from app.tools.skills.reading import FOLDER
from app.usage.records import Attribution


class SystemMessageRefused(Invalid):
    """The graph accepts no system messages from clients."""

    @classmethod
    def at(cls, location: int | str, spec: GraphSpec) -> Self:
        """The error for the message at an index, or for another field that extends the system prompt."""
        field = f"messages.{location}.role" if isinstance(location, int) else location
        return cls.field(field, f"is not allowed: the graph {spec.id} accepts no system messages of clients")


@dataclass(frozen=True, slots=True)
class RunPlanner:
    """Resolves requests against the catalogs of graphs, models, tools and prices."""

    graphs: GraphCatalog
    models: ModelRegistry
    tools: ToolCatalog
    prices: PriceList
    timeout: timedelta
    """The server's limit for every run."""
    attachments: AttachmentRules = DEFAULT_RULES
    skills: SkillLibrary = NO_SKILLS

    def plan_for(
        self, caller: Principal, run: RunKey, request: GraphRunRequest, *, request_id: str | None = None
    ) -> RunPlan:
        """The plan of a run that the caller wants to start.

        Raises `GraphNotAllowed`, `ModelNotAllowed`, and what `plan` raises.
        """
        terms = caller.terms
        if not terms.allows_graph(request.graph_id):
            raise GraphNotAllowed
        plan = self.plan(run, request, api_key_id=caller.api_key_id, request_id=request_id)
        models = {plan.model, *plan.agent_models.values(), plan.options.fallback} - {None}
        if any(model and not terms.allows_model(self.models.names_of(model)) for model in models):
            raise ModelNotAllowed
        return plan

    def plan(
        self,
        run: RunKey,
        request: GraphRunRequest,
        *,
        api_key_id: ApiKeyId,
        request_id: str | None,
    ) -> RunPlan:
        """The plan of a run; raises `GraphNotFound`, or `Invalid` naming the field."""
        spec = self.graphs.get(request.graph_id)
        check_system_messages(request, spec)
        check_files(request, spec)
        self.attachments.check_messages(request.messages)
        limits = request.limits.tightest(spec.limits)
        model = self.models.resolve(request.model, spec.model)
        tool_ids = self._tools(request, spec)
        seconds = self.timeout.total_seconds()
        plan = RunPlan(
            run=run,
            attempt=FIRST_ATTEMPT,
            spec=spec,
            model=model,
            tools=(
                *(self.tools.get(tool_id) for tool_id in tool_ids if tool_id in spec.tools),
                *self.skills.tools(spec.skills),
                *([question_tool(spec.question_timeout_s)] if spec.questions else []),
            ),
            skills=self.skills.named(spec.skills),
            remote_tools=tuple(tool_id for tool_id in tool_ids if tool_id not in spec.tools),
            limits=limits,
            timeout=timedelta(seconds=min(seconds, limits.timeout_s or seconds)),
            keep_open=_keep_open(request, spec),
            attribution=Attribution(
                api_key_id, request.graph_id, request_id, request.end_user, request.tags or None
            ),
            agent_models={
                name: self.models.resolve(None, agent.model)
                for name, agent in spec.agents.items()
                if agent.model is not None
            },
            options=chosen_options(model, self.models.options(model), spec.id, graph=spec, request=request),
        )
        plan = split_by_graph(plan, request.client_tools)
        cost = self._cost_of_first_message(request, plan)
        return replace(plan, first_message_usd=cost, credits_to_reserve=self.prices.credits_for(cost))

    def _cost_of_first_message(self, request: GraphRunRequest, plan: RunPlan) -> Decimal:
        # Only an estimate: the gateway knows the exact request, and reserves what each call may cost.
        client_tools = (f"{tool.description}{json.dumps(tool.input_schema)}" for tool in plan.client_tools)
        attached = [each for message in request.messages for each in message.attachments]
        texts = [
            plan.spec.system_prompt,
            *(tool.definition for tool in plan.tools),
            *client_tools,
            *(message.text for message in request.messages),
            *filter(None, map(_text_of, attached)),
        ]
        size = text_size(
            plan.model,
            texts,
            images=sum(each.type == "image" for each in attached),
            documents=sum(each.type == "document" and _text_of(each) is None for each in attached),
            output_tokens=plan.options.max_output_tokens,
        )
        options, now = plan.options, datetime.now(UTC)
        # Either of them may answer, so the more expensive one must be covered.
        models = [plan.model, *([options.fallback] if options.fallback else [])]
        return max(self.prices.most(model, size.maximum, at=now) for model in models)

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
        # In the graph's order, not the request's: the provider's cached prefix starts with the tools.
        return tuple(tool_id for tool_id in spec.all_tools if tool_id in request.tool_ids)


def _text_of(attachment: Attachment) -> str | None:
    return attachment.content if isinstance(attachment, DocumentPart) else None


def _keep_open(request: GraphRunRequest, spec: GraphSpec) -> timedelta:
    wanted = request.keep_open_s
    if wanted is not None and spec.keep_open_s is None:
        raise Invalid.field("keepOpenS", f"the graph {spec.id} keeps no run open")
    return timedelta(seconds=min(wanted or 0, spec.keep_open_s or 0))


def check_system_messages(request: GraphRunRequest, spec: GraphSpec) -> None:
    """Raise `Invalid` for the first system message, unless the graph has `allow_system_messages`."""
    if spec.allow_system_messages:
        return
    for index, message in enumerate(request.messages):
        if message.role == "system":
            raise SystemMessageRefused.at(index, spec)


def check_files(request: GraphRunRequest, spec: GraphSpec) -> None:
    """Raise `Invalid` unless the graph accepts these files."""
    if not request.files:
        return
    if not spec.native_tools:
        raise Invalid.field("files", f"the graph {spec.id} has no workspace for files")
    limits = spec.workspace
    for index, file in enumerate(request.files):
        if spec.skills and file.path.partition("/")[0] == FOLDER:
            raise Invalid.field(f"files.{index}.path", f"must not be in {FOLDER}/, the graph's skills")
    if len(request.files) > limits.max_files:
        raise Invalid.field("files", f"the graph {spec.id} accepts at most {limits.max_files} files")
    if sum(file.size for file in request.files) > limits.max_bytes:
        raise Invalid.field("files", f"the graph {spec.id} accepts at most {limits.max_bytes} bytes")
