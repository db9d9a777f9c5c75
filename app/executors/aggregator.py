"""Aggregators: route a run, or its preview, by the provider in its graph id."""

from collections.abc import Mapping
from typing import TypeVar

from app.executors.port import GraphExecutor, GraphPreviewer, Preview, RunContext, RunPlan
from app.graphs.catalog import GraphNotFound
from app.requests.run_request import GraphRunRequest

_T = TypeVar("_T")


class ExecutorAggregator:
    """Implements `GraphExecutor`: `claude_agents:planner` goes to the executor of `claude_agents`."""

    def __init__(self, executors: Mapping[str, GraphExecutor]) -> None:
        self._executors = executors

    async def run(self, request: GraphRunRequest, context: RunContext) -> None:
        """See the port; raises `GraphNotFound` for a provider without an executor."""
        await _of_provider(self._executors, request).run(request, context)


class PreviewerAggregator:
    """Implements `GraphPreviewer` in the same way."""

    def __init__(self, previewers: Mapping[str, GraphPreviewer]) -> None:
        self._previewers = previewers

    async def preview(self, request: GraphRunRequest, plan: RunPlan) -> Preview:
        """See the port; raises `GraphNotFound` for a provider without a previewer."""
        return await _of_provider(self._previewers, request).preview(request, plan)


def _of_provider(found: Mapping[str, _T], request: GraphRunRequest) -> _T:
    provider, _, _ = request.graph_id.partition(":")
    if provider not in found:
        raise GraphNotFound
    return found[provider]
