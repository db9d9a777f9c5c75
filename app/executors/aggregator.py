"""ExecutorAggregator: routes "claude_agents:planner" to the executor of claude_agents."""

from collections.abc import AsyncGenerator, Mapping

from app.events import AiEvent
from app.executors.port import GraphExecutor, Preview, RunContext
from app.graphs.catalog import GraphNotFound
from app.requests import GraphRunRequest


class ExecutorAggregator:
    """Routes runs by the provider in their graph id; a `GraphExecutor` itself."""

    def __init__(self, executors: Mapping[str, GraphExecutor]) -> None:
        self._executors = executors

    def run(self, request: GraphRunRequest, context: RunContext) -> AsyncGenerator[AiEvent, None]:
        """See the port; raises `GraphNotFound` for a unknown provider."""
        return self._executor_of(request).run(request, context)

    def preview(self, request: GraphRunRequest, context: RunContext) -> Preview:
        """See the port; raises `GraphNotFound` for a unknown provider."""
        return self._executor_of(request).preview(request, context)

    def _executor_of(self, request: GraphRunRequest) -> GraphExecutor:
        provider, _, _ = request.graph_id.partition(":")
        executor = self._executors.get(provider)
        if executor is None:
            raise GraphNotFound
        return executor
