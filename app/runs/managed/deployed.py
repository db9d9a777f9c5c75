"""Sessions that begin with a run of a deployment; pure."""

from dataclasses import replace

from app.ids import ApiKeyId
from app.requests.run_request import GraphRunRequest
from app.runs.managed.records import PREFIX, SessionSettings
from app.runs.requests.posted import BegunSession, MessageOrigin, origin_of


def session_of(run_id: str) -> str:
    """The id of the session that a run of a deployment begins: as often as it is started, the same."""
    return f"{PREFIX}{run_id}"


def begin_session(
    request: GraphRunRequest, api_key_id: ApiKeyId, deployment_id: str
) -> tuple[GraphRunRequest, MessageOrigin]:
    settings = SessionSettings(
        graph_id=request.graph_id,
        api_key_id=api_key_id,
        model=request.model,
        metadata=request.metadata or {},
        budget_usd=request.limits.max_budget_usd,
    )
    first = request.model_copy(update={"state_key": session_of(str(request.run_id)), "on_conflict": "reject"})
    begun = BegunSession(settings.stored(), deployment_id)
    return first, replace(origin_of(first), begins=begun)
