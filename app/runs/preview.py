"""Previewer: what a run would execute, said by what would execute it; nothing is started or kept."""

from dataclasses import dataclass

from app.executors.port import GraphExecutor, Preview, RunContext
from app.graph import GraphRunRequest
from app.ids import AccountId, ApiKeyId, RunId, RunKey, new_uuid
from app.json_schema.checker import SchemaChecker
from app.runs.plan import Planner
from app.runs.response_schema import check_response_schema


@dataclass(frozen=True, slots=True)
class Previewer:
    """Plans runs as `RunService` does, and goes no further."""

    planner: Planner
    executor: GraphExecutor
    schemas: SchemaChecker

    async def preview(
        self,
        account_id: AccountId,
        api_key_id: ApiKeyId,
        request: GraphRunRequest,
        *,
        request_id: str | None,
    ) -> tuple[RunContext, Preview]:
        """The run as planned, and as its executor would go about it; raises what planning raises."""
        run = RunKey(account_id, RunId(request.run_id or str(new_uuid())))
        context = self.planner.plan(run, request, api_key_id=api_key_id, request_id=request_id)
        if (wanted := request.response_format) is not None:
            await check_response_schema(
                self.schemas, wanted.schema_, field="responseFormat.schema", account_id=account_id
            )
        return context, self.executor.preview(request, context)
