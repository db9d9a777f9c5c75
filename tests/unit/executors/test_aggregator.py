from collections.abc import AsyncGenerator

import pytest

from app.events import AiEvent, AssistantFinal
from app.executors.aggregator import ExecutorAggregator
from app.executors.port import ExecutionFailed, GraphExecutor, Preview, RunContext
from app.graphs.catalog import GraphNotFound
from app.requests import GraphRunRequest, Message
from tests.factories import a_context

CONTEXT = a_context()


class Parrot:
    """An executor that says its own word, then fails if told to."""

    def __init__(self, word: str, failure: ExecutionFailed | None = None) -> None:
        self.word = word
        self.failure = failure
        self.closed = False
        self.heard: list[tuple[GraphRunRequest, RunContext]] = []

    async def run(self, request: GraphRunRequest, context: RunContext) -> AsyncGenerator[AiEvent, None]:
        self.heard.append((request, context))
        try:
            yield AssistantFinal(content=self.word)
            if self.failure is not None:
                raise self.failure
        finally:
            self.closed = True

    def preview(self, request: GraphRunRequest, context: RunContext) -> Preview:
        self.heard.append((request, context))
        return Preview(system_prompt=self.word, prompt=[], options={})


def a_request(graph_id: str) -> GraphRunRequest:
    return GraphRunRequest.of(graph_id=graph_id, messages=[Message(role="user", content="hi")])


async def test_a_run_goes_to_the_executor_of_its_provider() -> None:
    agents, messages = Parrot("agents"), Parrot("messages")
    aggregator = ExecutorAggregator({"claude_agents": agents, "messages": messages})
    request = a_request("messages:planner")
    said = [event async for event in aggregator.run(request, CONTEXT)]
    assert said == [AssistantFinal(content="messages")]
    assert messages.heard == [(request, CONTEXT)]
    assert not agents.heard


async def test_a_failure_comes_through_unchanged() -> None:
    failure = ExecutionFailed("timeout", "max_turns")
    aggregator = ExecutorAggregator({"claude_agents": Parrot("a", failure)})
    with pytest.raises(ExecutionFailed) as caught:
        [event async for event in aggregator.run(a_request("claude_agents:planner"), CONTEXT)]
    assert caught.value is failure


async def test_closing_the_run_closes_the_executors_own() -> None:
    parrot = Parrot("a")
    events = ExecutorAggregator({"claude_agents": parrot}).run(a_request("claude_agents:planner"), CONTEXT)
    await anext(events)
    await events.aclose()
    assert parrot.closed


def test_a_provider_nobody_serves_is_not_found() -> None:
    with pytest.raises(GraphNotFound):
        ExecutorAggregator({"claude_agents": Parrot("a")}).run(a_request("other:planner"), CONTEXT)


def test_a_preview_comes_from_the_executor_that_would_run_it() -> None:
    agents, messages = Parrot("agents"), Parrot("messages")
    aggregator = ExecutorAggregator({"claude_agents": agents, "messages": messages})
    assert aggregator.preview(a_request("messages:planner"), CONTEXT).system_prompt == "messages"
    assert not agents.heard
    with pytest.raises(GraphNotFound):
        aggregator.preview(a_request("other:planner"), CONTEXT)


def test_the_aggregator_is_an_executor_itself() -> None:
    inner: GraphExecutor = ExecutorAggregator({"claude_agents": Parrot("a")})
    outer = ExecutorAggregator({"claude_agents": inner})
    assert outer.run(a_request("claude_agents:planner"), CONTEXT) is not None
