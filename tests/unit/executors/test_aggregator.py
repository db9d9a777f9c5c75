import pytest

from app.events import AssistantFinal
from app.executors.aggregator import ExecutorAggregator, PreviewerAggregator
from app.executors.port import Preview, RunContext, RunPlan
from app.graphs.catalog import GraphNotFound
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest
from tests.factories import Events, a_context, a_control, a_plan


class Parrot:
    """An executor that publishes its own word."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.requests: list[GraphRunRequest] = []

    async def run(self, request: GraphRunRequest, context: RunContext) -> None:
        self.requests.append(request)
        await context.events.publish(AssistantFinal(content=self.word))

    async def preview(self, request: GraphRunRequest, _plan: RunPlan) -> Preview:
        self.requests.append(request)
        return Preview(system_prompt=self.word, prompt=[], options={})


def a_request(graph_id: str) -> GraphRunRequest:
    return GraphRunRequest.of(graph_id=graph_id, messages=[Message(role="user", content="hi")])


async def test_a_run_goes_to_the_executor_of_its_provider() -> None:
    agents, messages, events = Parrot("agents"), Parrot("messages"), Events()
    aggregator = ExecutorAggregator({"claude_agents": agents, "messages": messages})
    request = a_request("messages:planner")
    await aggregator.run(request, RunContext(a_plan(), a_control(), events))
    assert events.published == [AssistantFinal(content="messages")]
    assert messages.requests == [request]
    assert not agents.requests


async def test_a_provider_without_an_executor_is_not_found() -> None:
    aggregator = ExecutorAggregator({"claude_agents": Parrot("a")})
    with pytest.raises(GraphNotFound):
        await aggregator.run(a_request("other:planner"), a_context())


async def test_a_preview_comes_from_the_previewer_of_its_provider() -> None:
    agents, messages = Parrot("agents"), Parrot("messages")
    aggregator = PreviewerAggregator({"claude_agents": agents, "messages": messages})
    assert (await aggregator.preview(a_request("messages:planner"), a_plan())).system_prompt == "messages"
    assert not agents.requests
    with pytest.raises(GraphNotFound):
        await aggregator.preview(a_request("other:planner"), a_plan())
