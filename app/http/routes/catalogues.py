"""What there is to run and to use."""

from fastapi import APIRouter

from app.http.dependencies import RunReader, ServicesDep
from app.http.schemas import GraphShape, Page, ToolShape

router = APIRouter(prefix="/v1", tags=["catalogues"])


@router.get("/graphs", summary="List graphs")
async def list_graphs(services: ServicesDep, _caller: RunReader) -> Page[GraphShape]:
    """Every graph, by id."""
    return Page(items=[GraphShape.of(graph) for graph in services.graphs.all()])


@router.get("/tools", summary="List tools")
async def list_tools(services: ServicesDep, _caller: RunReader) -> Page[ToolShape]:
    """Every tool, by id."""
    return Page(items=[ToolShape.of(tool) for tool in services.tools.all()])
