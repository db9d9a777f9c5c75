"""What waits for a person in the runs of the key's account."""

from typing import Annotated

from fastapi import APIRouter, Query

from app.http.admission.checks import CheckedRoute
from app.http.api.approvals.schemas import KINDS, ApprovalKind, ApprovalsResponse
from app.http.dependencies import RunReader, ServicesDep
from app.http.parameters import PageParams, StorableText
from app.runs.waits.listing.records import CallFilter

router = APIRouter(route_class=CheckedRoute, prefix="/v1/approvals", tags=["control"])


@router.get("", summary="List what waits for an answer")
async def list_approvals(
    services: ServicesDep,
    caller: RunReader,
    page: PageParams,
    kind: ApprovalKind | None = None,
    graph_id: Annotated[StorableText | None, Query(alias="graphId")] = None,
    run_id: Annotated[StorableText | None, Query(alias="runId")] = None,
    state_key: Annotated[StorableText | None, Query(alias="stateKey")] = None,
) -> ApprovalsResponse:
    """Tool calls, questions, calls of client tools and budgets that wait for an answer, newest first.

    Each is answered by the route of its kind below `/v1/runs/{runId}`; a budget by that of permissions.
    """
    stored = None if kind is None else KINDS[kind]
    chosen = CallFilter(stored, graph_id, None if run_id is None else [run_id], state_key, caller.end_user)
    found = await services.account_calls.page(caller.account_id, chosen, page)
    schemas = (
        {tool.id: tool.input_schema for tool in services.tools.all()} if caller.may("runs:approve") else {}
    )
    return ApprovalsResponse.of(found, shows_money=caller.may("receipts:read"), schema_of=schemas.get)
