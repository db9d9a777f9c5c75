"""Routes of OpenAI's API that list its models: each graph is one."""

from typing import Annotated

from fastapi import APIRouter, Path

from app.graphs.catalog import GraphNotFound
from app.http.admission.checks import CheckedRoute
from app.http.dependencies import RunReader, ServicesDep, usable_graphs
from app.http.openai.errors import ERROR_RESPONSES, PATH
from app.http.openai.schemas import OpenAiModel, OpenAiModels

router = APIRouter(route_class=CheckedRoute, prefix=PATH, tags=["openai"], responses=ERROR_RESPONSES)


@router.get("/models", summary="List graphs as models")
async def list_openai_models(services: ServicesDep, caller: RunReader) -> OpenAiModels:
    """The graphs that the key may run."""
    return OpenAiModels(data=[OpenAiModel.of(graph) for graph in usable_graphs(services, caller)])


@router.get("/models/{model}", summary="Read a graph as a model")
async def get_openai_model(
    model: Annotated[str, Path()], services: ServicesDep, caller: RunReader
) -> OpenAiModel:
    """A graph that the key may run."""
    for graph in usable_graphs(services, caller):
        if graph.id == model:
            return OpenAiModel.of(graph)
    raise GraphNotFound
