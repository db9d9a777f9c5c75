"""Catalogs: graphs, tools and models."""

from datetime import UTC, datetime

from fastapi import APIRouter

from app.http.admission.checks import CheckedRoute
from app.http.api.catalogs.schemas import GraphResponse, ModelResponse, ToolResponse
from app.http.dependencies import RunReader, ServicesDep, usable_graphs
from app.http.response_model import Page

router = APIRouter(route_class=CheckedRoute, prefix="/v1", tags=["catalogs"])


@router.get("/graphs", summary="List graphs")
async def list_graphs(services: ServicesDep, caller: RunReader) -> Page[GraphResponse]:
    """The graphs that the key may run, by id."""
    return Page(items=[GraphResponse.of(graph) for graph in usable_graphs(services, caller)])


@router.get("/tools", summary="List tools")
async def list_tools(services: ServicesDep, _caller: RunReader) -> Page[ToolResponse]:
    """All tools, by id."""
    return Page(items=[ToolResponse.model_validate(tool) for tool in services.tools.all()])


@router.get("/models", summary="List models")
async def list_models(services: ServicesDep, caller: RunReader) -> Page[ModelResponse]:
    """The models that the key may use, of the registry or a graph, by id, with their current prices."""
    of_graphs = {name for graph in usable_graphs(services, caller) for name in graph.models}
    now, prices = datetime.now(UTC), services.prices
    known = services.models.known(of_graphs)
    return Page(
        items=[
            ModelResponse.of(
                model, prices.find_price(model.id, at=now), refusal=services.refusals.get(model.id)
            )
            for model in known
            if caller.terms.allows_model((model.id, *model.aliases))
        ]
    )
