"""RunPreviewer: shows what a run would execute, without starting or storing anything."""

from dataclasses import dataclass, replace

from app.errors import Invalid
from app.executors.port import GraphPreviewer, Preview, RunPlan
from app.executors.tools.client_tools import described_client_tools
from app.graphs.spec import GraphSpec
from app.ids import RunId, RunKey, new_uuid
from app.platform.json_schema.checker import SchemaChecker
from app.requests.principal import Principal
from app.requests.runs import GraphRunRequest
from app.runs.planner import RunPlanner
from app.runs.requests.client_tools import check_client_tools
from app.runs.requests.response_schema import check_response_schema


@dataclass(frozen=True, slots=True)
class RunPreviewer:
    """Plans a run as `RunService` does and gets the preview of what its executor would run."""

    planner: RunPlanner
    previewer: GraphPreviewer
    schemas: SchemaChecker

    async def preview(
        self,
        caller: Principal,
        request: GraphRunRequest,
        *,
        request_id: str | None,
    ) -> tuple[RunPlan, Preview]:
        """The plan, and the executor's preview of it; raises what planning raises.

        The graph's own prompt belongs to the operator: without the scope `admin` only its length is shown.
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
        """The plan of a run, were it started now; raises `GraphNotFound`, or `Invalid` naming the field."""
        run = RunKey(caller.account_id, RunId(request.run_id or str(new_uuid())))
        plan = self.planner.plan(run, request, api_key_id=caller.api_key_id, request_id=request_id)
        if (response_format := request.response_format) is not None:
            await check_response_schema(
                self.schemas,
                response_format.schema_,
                field="responseFormat.schema",
                account_id=caller.account_id,
            )
        await check_client_tools(self.schemas, request.client_tools, account_id=caller.account_id)
        return plan


def _without_prompt(spec: GraphSpec) -> GraphSpec:
    placeholder = f"[the graph's prompt: {len(spec.system_prompt)} characters]"
    return spec.model_copy(update={"system_prompt": placeholder})
