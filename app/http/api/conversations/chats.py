"""Conversations as the chats and threads of the foreign wires."""

from app.bootstrap.services import Services
from app.http.api.conversations.schemas import ChatResponse
from app.http.response_model import Page
from app.platform.pagination import PageRequest
from app.requests.principal import Principal


async def page_of_chats(
    services: Services, caller: Principal, graph_id: str, page: PageRequest
) -> Page[ChatResponse]:
    """The conversations with runs of this graph, most recently used first; raises `GraphNotFound`."""
    services.graphs.get(graph_id)
    return Page.of(await services.conversations.list_chats(caller, graph_id, page), ChatResponse.of)
