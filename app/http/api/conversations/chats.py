"""Conversations as the chats and threads of the foreign wires."""

from app.bootstrap.services import Services
from app.http.api.conversations.schemas import ChatResponse
from app.http.response_model import Page
from app.requests.principal import Principal


async def page_of_chats(
    services: Services, caller: Principal, graph_id: str, *, limit: int, cursor: str | None
) -> Page[ChatResponse]:
    """The conversations with runs of this graph, most recently used first; raises `GraphNotFound`."""
    services.graphs.get(graph_id)
    found, next_cursor = await services.conversations.list_chats(
        caller.account_id, graph_id, limit=limit, cursor=cursor
    )
    return Page(items=[ChatResponse.of(each) for each in found], next_cursor=next_cursor)
