"""ExecutorAggregator: routes a run to the executor of the provider in its graph id."""

from collections.abc import Mapping

from app.executors.port import GraphExecutor, Preview, RunContext, RunPlan
from app.graphs.catalog import GraphNotFound
from app.requests import GraphRunRequest


class ExecutorAggregator:
    """Implements `GraphExecutor`: `claude_agents:planner` goes to the executor of `claude_agents`."""

    def __init__(self, executors: Mapping[str, GraphExecutor]) -> None:
        self._executors = executors

    async def run(self, request: GraphRunRequest, context: RunContext) -> None:
        """See the port; raises `GraphNotFound` for a provider without an executor."""
        await self._executor_of(request).run(request, context)

    async def preview(self, request: GraphRunRequest, plan: RunPlan) -> Preview:
        """See the port; raises `GraphNotFound` for a provider without an executor."""
        return await self._executor_of(request).preview(request, plan)

    def _executor_of(self, request: GraphRunRequest) -> GraphExecutor:
        provider, _, _ = request.graph_id.partition(":")
        executor = self._executors.get(provider)
        if executor is None:
            raise GraphNotFound
        return executor
