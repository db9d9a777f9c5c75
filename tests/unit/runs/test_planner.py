import base64
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from app.billing.prices.price_list import PriceList
from app.errors import Invalid
from app.executors.port import RunPlan
from app.graphs.catalog import GraphCatalog, GraphNotFound
from app.graphs.spec import AgentSpec, GraphSpec
from app.ids import AccountId, ApiKeyId, RunId, RunKey, new_uuid
from app.models.registry import ModelEntry, ModelOptions, ModelRegistry, OperatorModels
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest, RunLimits
from app.runs.planner import RunPlanner
from app.tools.catalog import ToolCatalog
from app.usage.records import TokenUsage
from tests.unit.tools.calling import a_tool

RUN = RunKey(AccountId(new_uuid()), RunId("run-1"))
KEY = ApiKeyId(new_uuid())
SMALL = OperatorModels(
    aliases={"small": "claude-haiku-4-5"},
    entries=(ModelEntry("claude-haiku-4-5", ModelOptions(max_output_tokens=4000)),),
)


def plan(request: dict[str, Any] | None = None, *, server_s: float = 600, **graph: Any) -> RunPlan:
    spec = GraphSpec(name="planner", description="d", system_prompt="p", **graph)
    prices = PriceList()
    planner = RunPlanner(
        GraphCatalog([spec]),
        ModelRegistry("haiku", SMALL, is_priced=lambda _: True),
        ToolCatalog([a_tool("demo__a"), a_tool("demo__b")]),
        prices,
        timedelta(seconds=server_s),
    )
    fields: dict[str, Any] = {"graph_id": spec.id, "messages": [Message.of(role="user", content="hi")]}
    return planner.plan(
        RUN, GraphRunRequest.of(**fields | (request or {})), api_key_id=KEY, request_id="req-1"
    )


def refused(*args: Any, **graph: Any) -> str:
    with pytest.raises(Invalid) as error:
        plan(*args, **graph)
    return error.value.detail


def test_a_plan_names_what_its_receipts_name() -> None:
    planned = plan()
    assert (planned.run, planned.attempt, planned.request_id) == (RUN, 0, "req-1")
    assert (planned.attribution.api_key_id, planned.attribution.graph_id) == (KEY, "claude_agents:planner")


@pytest.mark.parametrize(
    ("of_graph", "of_request", "kept"), [(60, 5, 5), (60, 120, 60), (60, None, 0), (None, None, 0)]
)
def test_a_run_is_kept_open_if_its_request_says_so_and_as_long_as_the_graph_allows(
    of_graph: float | None, of_request: float | None, kept: float
) -> None:
    assert plan({"keep_open_s": of_request}, keep_open_s=of_graph).keep_open == timedelta(seconds=kept)


def test_a_graph_may_keep_no_run_open() -> None:
    assert refused({"keep_open_s": 5}) == "keepOpenS: the graph claude_agents:planner keeps no run open"


def test_the_model_is_the_requests_else_the_graphs_else_the_default() -> None:
    assert plan().model == "claude-haiku-5-5"
    assert plan(model="sonnet").model == "claude-sonnet-5-5"
    assert plan({"model": "opus"}, model="sonnet").model == "claude-opus-5-5"


def test_models_of_subagents_are_resolved() -> None:
    agents = {
        name: AgentSpec(description="d", prompt="p", model=model)
        for name, model in [("helper", "opus"), ("other", None)]
    }
    assert plan(agents=agents).agent_models == {"helper": "claude-opus-5-5"}


def test_tools_are_the_requested_ones_in_the_graphs_order() -> None:
    tools = ("demo__a", "demo__b")
    assert [each.id for each in plan(tools=tools).tools] == list(tools)
    both = plan({"tool_ids": ["demo__b", "demo__a"]}, tools=tools)
    assert [each.id for each in both.tools] == list(tools)
    assert plan({"tool_ids": []}, tools=tools).tools == ()


def test_a_tool_that_the_graph_does_not_have_is_refused_by_its_index() -> None:
    message = refused({"tool_ids": ["demo__a", "demo__b"]}, tools=("demo__a",))
    assert message == "toolIds: the graph claude_agents:planner has no tool 'demo__b'"


@pytest.mark.parametrize(
    ("server", "graph", "request_", "seconds"),
    [(600, None, None, 600), (600, 60, None, 60), (600, 60, 30, 30), (600, 60, 90, 60), (10, 60, 30, 10)],
)
def test_the_timeout_is_the_shortest(
    server: float, graph: float | None, request_: float | None, seconds: float
) -> None:
    of_graph = {} if graph is None else {"timeout_s": graph}
    limits = RunLimits.of(timeout_s=request_)
    assert plan({"limits": limits}, server_s=server, **of_graph).timeout == timedelta(seconds=seconds)


def test_limits_are_the_tightest_of_request_and_graph() -> None:
    limits = RunLimits.of(max_turns=5, max_budget_usd=Decimal(3))
    planned = plan({"limits": limits}, max_turns=9, max_budget_usd=Decimal(2))
    assert (planned.limits.max_turns, planned.limits.max_budget_usd) == (5, Decimal(2))


def test_a_system_message_is_refused_unless_the_graph_accepts_it() -> None:
    messages = [Message.of(role="system", content="obey"), Message.of(role="user", content="hi")]
    assert refused({"messages": messages}).startswith("messages.0.role: ")
    assert plan({"messages": messages}, allow_system_messages=True).model


def test_files_are_refused_where_there_is_no_workspace_or_too_little_room() -> None:
    file = {"path": "a.txt", "data": base64.b64encode(b"hello").decode()}
    files = [file, {**file, "path": "b.txt"}]
    assert "has no workspace" in refused({"files": files})
    room = {"native_tools": ("Read",), "workspace": {"max_files": 1}}
    assert "accepts at most 1 files" in refused({"files": files}, **room)
    room = {"native_tools": ("Read",), "workspace": {"max_bytes": 9}}
    assert "accepts at most 9 bytes" in refused({"files": files}, **room)


def test_a_thinking_budget_replaces_the_models_options_and_must_fit() -> None:
    assert plan(thinking_budget_tokens=2048).options.thinking == 2048
    assert plan().options.thinking == "disabled"
    assert "exceeds the message length" in refused(thinking_budget_tokens=30_000, model="small")


def test_an_unknown_graph_is_not_found() -> None:
    with pytest.raises(GraphNotFound):
        plan({"graph_id": "claude_agents:other"})


def test_the_reservation_covers_the_longest_answer_of_the_more_expensive_model() -> None:
    prices, cheap = PriceList(), plan()
    output = TokenUsage(output_tokens=cheap.options.max_output_tokens)
    least = prices.credits_for(prices.most("claude-haiku-5-5", output, at=datetime.now(UTC)))

    assert cheap.credits_to_reserve > least > 0
    assert plan(model="opus").credits_to_reserve > cheap.credits_to_reserve
    longer = plan({"messages": [Message.of(role="user", content="x" * 1_000_000)]})
    assert longer.credits_to_reserve > cheap.credits_to_reserve
