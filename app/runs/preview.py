"""RunPreviewer: shows what a run would execute, without starting or storing anything."""

from dataclasses import dataclass, replace

from app.errors import Invalid
from app.executors.port import GraphPreviewer, Preview, RunPlan
from app.executors.tools.client_tools import described_client_tools
from app.graphs.spec import GraphSpec
from app.ids import RunId, RunKey, new_uuid
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.planner import RunPlanner
from app.runs.requests.schema_preparation import SchemaPreparation


@dataclass(frozen=True, slots=True)
class RunPreviewer:
    """Plans a run as `RunPlanning` does and gets the preview of what its executor would run."""

    planner: RunPlanner
    previewer: GraphPreviewer
    schemas: SchemaPreparation

    async def preview(
        self,
        caller: Principal,
        request: GraphRunRequest,
        *,
        request_id: str | None,
    ) -> tuple[RunPlan, Preview]:
        """The plan, and the executor's preview of it; raises what planning raises.

        The graph's prompt and conditions are the operator's: without the scope `admin` only their length is
        shown.
        """
        if not request.messages:
            raise Invalid.field("messages", "is required for a preview, which reads no conversation")
        plan = await self.plan(caller, request, request_id=request_id)
        if not caller.may("admin"):
            plan = replace(plan, spec=_without_prompt(plan.spec))
        tools = (*plan.tools, *described_client_tools(plan))
        return plan, await self.previewer.preview(request, replace(plan, tools=tools))

    async def plan(
        self, caller: Principal, request: GraphRunRequest, *, request_id: str | None = None
    ) -> RunPlan:
        """The plan of a run, were it started now; raises what `RunPlanner.plan_for` raises."""
        request = caller.labelled(request)
        run = RunKey(caller.account_id, RunId(request.run_id or str(new_uuid())))
        plan = self.planner.plan_for(caller, run, request, request_id=request_id)
        schemas = await self.schemas.prepare(request, plan.spec, account_id=caller.account_id)
        return replace(plan, schemas=schemas)


def _without_prompt(spec: GraphSpec) -> GraphSpec:
    prompt = f"[the graph's prompt: {len(spec.system_prompt)} characters]"
    rules = [
        rule if rule.when is None else rule.model_copy(update={"when": f"[{len(rule.when)} characters]"})
        for rule in spec.rules
    ]
    return spec.model_copy(update={"system_prompt": prompt, "rules": tuple(rules)})
