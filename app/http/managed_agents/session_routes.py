"""Routes of sessions, which are conversations."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final, Literal, TypeAlias

from fastapi import APIRouter, Depends, Query

from app.bootstrap.services import Services
from app.errors import Invalid
from app.http.admission.checks import CheckedRoute, large_body, small_body
from app.http.anthropic.openapi import ERROR_RESPONSES
from app.http.dependencies import FingerprintedPosting, ReadWriter, RunReader, ServicesDep, Writer
from app.http.managed_agents.errors import PATH
from app.http.managed_agents.input import ChangedSession, NewSession, UserMessage, client_tools
from app.http.managed_agents.routes import MOST, agent_of
from app.http.managed_agents.schemas import AgentModel, DeletedSession, ManagedAgent, ManagedPage, Session
from app.http.parameters import MomentParam, StorableText, state_key_in_path
from app.platform.pagination import Cursor
from app.requests.client_tools import ClientTool
from app.requests.messages import ContentPart
from app.requests.principal import Principal
from app.runs.managed.records import Comparison, ManagedSession, SessionFilter, SessionSettings
from app.runs.requests.attachments import AttachmentRules
from app.runs.requests.posted import part_of

_DEFAULT: Final = 20

router = APIRouter(
    route_class=CheckedRoute, prefix=f"{PATH}/sessions", tags=["managed-agents"], responses=ERROR_RESPONSES
)


SessionId: TypeAlias = Annotated[str, state_key_in_path("sessionId")]


async def moments(
    after: Annotated[MomentParam | None, Query(alias="created_at[gt]")] = None,
    since: Annotated[MomentParam | None, Query(alias="created_at[gte]")] = None,
    before: Annotated[MomentParam | None, Query(alias="created_at[lt]")] = None,
    until: Annotated[MomentParam | None, Query(alias="created_at[lte]")] = None,
) -> dict[Comparison, datetime]:
    """The times that a list is limited to, by the names of the comparisons."""
    given: dict[Comparison, datetime | None] = {"gt": after, "gte": since, "lt": before, "lte": until}
    return {name: moment for name, moment in given.items() if moment is not None}


Moments: TypeAlias = Annotated[dict[Comparison, datetime], Depends(moments)]
Order: TypeAlias = Literal["asc", "desc"]


@dataclass(frozen=True, slots=True)
class SessionQuery:
    """Which page of sessions is listed."""

    chosen: SessionFilter
    limit: int
    statuses: frozenset[str] | None


async def _query(
    created: Moments,
    agent_id: StorableText | None = None,
    deployment_id: StorableText | None = None,
    statuses: Annotated[list[str] | None, Query(alias="statuses[]")] = None,
    order: Order = "desc",
    page: Annotated[str | None, Query(description="The `next_page` of the page before.")] = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = _DEFAULT,
    *,
    include_archived: bool = False,
) -> SessionQuery:
    after = None if page is None else Cursor.decode(page)
    chosen = SessionFilter(
        graph_id=agent_id,
        deployment_id=deployment_id,
        created=tuple(created.items()),
        has_archived=include_archived,
        is_ascending=order == "asc",
        after=after,
    )
    return SessionQuery(chosen, limit, None if statuses is None else frozenset(statuses))


@router.post("", dependencies=[large_body], summary="Create a session")
async def create_managed_session(
    body: NewSession, services: ServicesDep, caller: Writer, posting: FingerprintedPosting
) -> Session:
    """A conversation with a graph; it is not created if its first initial message is refused."""
    settings = body.settings(caller.api_key_id)
    await _require_usable(services, caller, settings.graph_id, settings.tools)
    if (graph := services.graphs.find(settings.graph_id)) is not None:
        services.models.resolve(settings.model, graph.model)
    read = partial(_contents_of, body.initial_events, services.attachments)
    contents = await services.offload.run(read, size=sum(each.chars for each in body.initial_events))
    if not contents:
        created = await services.managed.create(caller, settings, title=body.title, **posting)
        return _shown(services, caller, created)
    session_id = await services.managed.start(caller, settings, contents[0], title=body.title, **posting)
    for index, content in enumerate(contents[1:], 1):
        await services.managed.say(caller, session_id, content, **part_of(posting, index))
    return _shown(services, caller, await services.managed.get(caller, session_id))


@router.get("", summary="List sessions")
async def list_managed_sessions(
    services: ServicesDep, caller: RunReader, query: Annotated[SessionQuery, Depends(_query)]
) -> ManagedPage[Session]:
    """Those that were created over this wire, newest first. With `statuses[]` a page may have fewer."""
    found, has_more = await services.managed.page(caller, query.chosen, limit=query.limit)
    shown = [each for each in found if query.statuses is None or each.status in query.statuses]
    last = found[-1].conversation if has_more else None
    return ManagedPage(
        data=[_shown(services, caller, each) for each in shown],
        next_page=None if last is None else Cursor(last.created_at, last.state_key).encode(),
    )


@router.get("/{sessionId}", summary="Read a session")
async def get_managed_session(session_id: SessionId, services: ServicesDep, caller: RunReader) -> Session:
    """With its status, and what the receipts of its runs say."""
    return _shown(services, caller, await services.managed.get(caller, session_id))


@router.post("/{sessionId}", dependencies=[small_body], summary="Change a session")
async def change_managed_session(
    session_id: SessionId, body: ChangedSession, services: ServicesDep, caller: ReadWriter
) -> Session:
    """Its title, metadata, budget, and the tools that the client executes; for its next runs."""

    def title(current: str | None) -> str | None:
        return body.title if "title" in body.model_fields_set else current

    if body.agent is not None:
        known = await services.managed.get(caller, session_id)
        tools = client_tools(body.agent.tools)
        await _require_usable(services, caller, known.settings.graph_id, tools)
    await services.managed.change(caller, session_id, body.applied_to, title=title)
    session = await services.managed.get(caller, session_id)
    return _shown(services, caller, session)


@router.post("/{sessionId}/archive", summary="Archive a session")
async def archive_managed_session(
    session_id: SessionId, services: ServicesDep, caller: ReadWriter
) -> Session:
    """It takes no more messages and is listed with `include_archived` only."""

    def archived(settings: SessionSettings) -> SessionSettings:
        return settings.model_copy(update={"archived_at": settings.archived_at or datetime.now(UTC)})

    await services.managed.change(caller, session_id, archived)
    return _shown(services, caller, await services.managed.get(caller, session_id))


@router.delete("/{sessionId}", summary="Delete a session")
async def delete_managed_session(
    session_id: SessionId, services: ServicesDep, caller: Writer
) -> DeletedSession:
    """Delete its conversation; fails with 409 while a run of it is active. Its receipts stay."""
    await services.managed.get(caller, session_id)
    await services.conversations.delete(caller, session_id)
    return DeletedSession(id=session_id)


async def _require_usable(
    services: Services, caller: Principal, graph_id: str, tools: Sequence[ClientTool]
) -> None:
    """Raise `Invalid` naming the tool that the runs of a session with this graph could not have."""
    graph = services.graphs.find(graph_id)
    if tools and graph is not None and graph.client_tools is False:
        raise Invalid.field("agent.tools", f"the graph {graph.id} takes no tools of clients")
    found = await services.client_tools.schemas.usable(tools, account_id=caller.account_id)
    for index, tool in enumerate(tools):
        if tool.name not in found.client_tools:
            field = f"agent.tools.{index}.input_schema"
            raise Invalid.field(field, "is not a JSON schema that can be used")


def _contents_of(events: Sequence[UserMessage], rules: AttachmentRules) -> list[str | list[ContentPart]]:
    """Raises `Invalid` naming what of the first messages cannot be sent."""
    return [event.ours(f"initial_events.{index}", rules) for index, event in enumerate(events)]


def _shown(services: Services, caller: Principal, session: ManagedSession) -> Session:
    settings = session.settings
    graph = services.graphs.find(settings.graph_id)
    if graph is not None:
        agent = agent_of(services, graph, settings)
    else:
        # The operator has removed its file.
        model = AgentModel(id=settings.model or "")
        agent = ManagedAgent(id=settings.graph_id, name="", description="", model=model, metadata={})
    return Session.of(session, agent, has_cost=caller.may("receipts:read"))
