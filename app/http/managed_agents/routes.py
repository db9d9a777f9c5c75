"""Routes of agents, which are graphs, and of the only environment."""

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query

from app.bootstrap.services import Services
from app.errors import Invalid, NotFound
from app.graphs.catalog import GraphNotFound
from app.graphs.spec import GraphSpec
from app.http.admission.checks import CheckedRoute
from app.http.anthropic.openapi import ERROR_RESPONSES
from app.http.dependencies import RunReader, ServicesDep, usable_graphs
from app.http.managed_agents.errors import PATH
from app.http.managed_agents.input import ENVIRONMENT
from app.http.managed_agents.schemas import Environment, ManagedAgent, ManagedPage
from app.runs.managed.records import SessionSettings

_DEFAULT: Final = 20
MOST: Final = 100

router = APIRouter(route_class=CheckedRoute, prefix=PATH, tags=["managed-agents"], responses=ERROR_RESPONSES)


class EnvironmentNotFound(NotFound):
    """There is no environment with this id: this server has env_default."""

    code = "environment_not_found"


async def _beta(beta: Annotated[bool | None, Query(description="Ignored.")] = None) -> None:
    """What some clients add to each path."""


router.dependencies.append(Depends(_beta))


@router.get("/agents", summary="List graphs as agents")
async def list_managed_agents(
    services: ServicesDep,
    caller: RunReader,
    limit: Annotated[int, Query(ge=1, le=MOST)] = _DEFAULT,
    page: Annotated[str | None, Query(description="The `next_page` of the page before.")] = None,
) -> ManagedPage[ManagedAgent]:
    """The graphs that the key may run, by id."""
    graphs = {graph.id: graph for graph in usable_graphs(services, caller)}
    ids = sorted(graphs)
    if page is not None and page not in graphs:
        raise Invalid.field("page", "is not a page of this list")
    after = ids if page is None else ids[ids.index(page) + 1 :]
    shown = [agent_of(services, graphs[each]) for each in after[:limit]]
    return ManagedPage(data=shown, next_page=shown[-1].id if len(after) > limit else None)


@router.get("/agents/{agentId}", summary="Read a graph as an agent")
async def get_managed_agent(
    agent_id: Annotated[str, Path(alias="agentId")],
    services: ServicesDep,
    caller: RunReader,
    version: Annotated[int, Query(ge=1, le=1, description="A graph has one version.")] = 1,  # noqa: ARG001
) -> ManagedAgent:
    """A graph that the key may run."""
    for graph in usable_graphs(services, caller):
        if graph.id == agent_id:
            return agent_of(services, graph)
    raise GraphNotFound


@router.get("/environments", summary="List environments")
async def list_managed_environments(
    _caller: RunReader,
    limit: Annotated[int, Query(ge=1, le=MOST)] = _DEFAULT,  # noqa: ARG001
) -> ManagedPage[Environment]:
    """The only one, which stands for this server."""
    return ManagedPage(data=[Environment()])


@router.get("/environments/{environmentId}", summary="Read an environment")
async def get_managed_environment(
    environment_id: Annotated[str, Path(alias="environmentId")], _caller: RunReader
) -> Environment:
    """The only one is `env_default`."""
    if environment_id != ENVIRONMENT:
        raise EnvironmentNotFound
    return Environment()


def agent_of(services: Services, graph: GraphSpec, settings: SessionSettings | None = None) -> ManagedAgent:
    """A graph as an agent, with what a session has instead."""
    return ManagedAgent.of(graph, services.models.resolve(None, None), settings)
