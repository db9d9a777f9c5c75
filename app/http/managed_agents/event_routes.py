"""Routes of the events of sessions."""

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from sse_starlette import EventSourceResponse

from app.http.admission.checks import CheckedRoute, large_body
from app.http.anthropic.openapi import ERROR_RESPONSES
from app.http.dependencies import FingerprintedPosting, RunReader, RunStreamsDep, ServicesDep, Writer
from app.http.managed_agents.encoder import SessionEncoder
from app.http.managed_agents.errors import PATH
from app.http.managed_agents.following import FollowedSession
from app.http.managed_agents.input import PostedEvents
from app.http.managed_agents.listing import EventFilter, page_of_events
from app.http.managed_agents.schemas import ManagedPage, SentEvents, SessionEvent
from app.http.managed_agents.sending import send_events
from app.http.managed_agents.session_routes import Moments, Order, SessionId
from app.http.streaming.sse import InterruptibleStream

_DEFAULT: Final = 100
_MOST: Final = 1000

_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events: each `data` is an event as JSON, and its `event` is the type.",
        "content": {"text/event-stream": {}},
    }
}

router = APIRouter(
    route_class=CheckedRoute,
    prefix=f"{PATH}/sessions/{{sessionId}}/events",
    tags=["managed-agents"],
    responses=ERROR_RESPONSES,
)


@router.post("", dependencies=[large_body], summary="Send events to a session")
async def send_managed_events(
    session_id: SessionId,
    body: PostedEvents,
    services: ServicesDep,
    caller: Writer,
    posting: FingerprintedPosting,
) -> SentEvents:
    """Messages go to the run that is active, or start the next one.

    Also interruptions, results of custom tools, and decisions about calls, which need `runs:approve`.
    """
    session = await services.managed.get(caller, session_id)
    sent = await send_events(services, caller, session, body.events, posting)
    return SentEvents(data=[SessionEvent.model_validate(each) for each in sent])


@router.get("", summary="List the events of a session")
async def list_managed_events(
    session_id: SessionId,
    services: ServicesDep,
    caller: RunReader,
    processed: Moments,
    order: Order = "asc",
    types: Annotated[list[str] | None, Query(alias="types[]")] = None,
    limit: Annotated[int, Query(ge=1, le=_MOST)] = _DEFAULT,
    page: Annotated[str | None, Query(description="The `next_page` of the page before.")] = None,
) -> ManagedPage[SessionEvent]:
    """Those of all its runs, with the same ids as in the stream. A page may have fewer than `limit`."""
    session = await services.managed.get(caller, session_id)
    chosen = EventFilter(
        limit=limit,
        is_ascending=order == "asc",
        after=page,
        types=None if types is None else frozenset(types),
        processed=processed,
    )
    has_cost = caller.may("receipts:read")
    found, next_page = await page_of_events(services, session, chosen, has_cost=has_cost)
    return ManagedPage(data=[SessionEvent.model_validate(each) for each in found], next_page=next_page)


@router.get("/stream", response_class=EventSourceResponse, responses=_STREAM, summary="Follow a session")
async def stream_managed_events(
    session_id: SessionId,
    services: ServicesDep,
    caller: RunReader,
    streams: RunStreamsDep,
    event_deltas: Annotated[
        list[Literal["agent.message", "agent.thinking"]] | None, Query(alias="event_deltas[]")
    ] = None,
) -> EventSourceResponse:
    """What happens from now on, over all its runs; the stream ends with the session.

    `event_deltas[]`: the types of events that are also shown while they are written.
    """
    session = await services.managed.get(caller, session_id)
    encoder = SessionEncoder(frozenset(event_deltas or ()))
    followed = await FollowedSession.open(services, caller, session, encoder)
    scope = streams.open_reader(caller, (caller.account_id, session_id))
    return InterruptibleStream(
        followed.chunks(), encoder, heartbeat_s=streams.heartbeat_s, reader_scope=scope
    )
