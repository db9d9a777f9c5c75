from typing import Any

import pytest

from app.client_tools.declared import ClientTool
from app.executors.tools.client_tools import described_client_tools, split_by_graph, unusable_reason
from app.graphs.spec import GraphSpec
from app.ids import RunKey
from app.tools.policy import ToolPolicy
from app.tools.runner import ToolRunner
from app.tools.tool import ToolContext
from tests.factories import a_plan

PICK = ClientTool(name="pick_color", description=" Pick. ", inputSchema={"anyOf": [{"required": ["a"]}]})
ASK = ClientTool(name="ask", inputSchema={})


def test_a_plan_has_the_tools_that_its_graph_takes() -> None:
    spec = GraphSpec(name="g", description="d", system_prompt="p", client_tools={"names": "pick_.*"})

    plan = split_by_graph(a_plan(spec=spec), [PICK, ASK])

    assert (plan.client_tools, plan.ignored_client_tools) == ((PICK,), ("ask",))


async def test_the_model_gets_each_with_a_schema_that_apis_take() -> None:
    plan = a_plan(client_tools=(PICK, ASK))

    pick, ask = described_client_tools(plan)

    assert (pick.id, ask.id) == ("client-pick_color", "client-ask")
    assert pick.description == (
        'Pick.\n\nThe arguments must also match this JSON schema: {"anyOf": [{"required": ["a"]}]}'
    )
    assert ask.description == "A tool of the application."
    assert pick.input_schema == ask.input_schema == {"type": "object"}
    assert pick.read_only
    assert pick.timeout_s > plan.spec.client_tool_timeout_s
    context = ToolContext(run=RunKey(plan.run.account_id, plan.run.run_id), tool_call_id="c", request_id=None)
    runner = ToolRunner({ask.id: ask}, ToolPolicy(frozenset({ask.id})))
    assert (await runner.run(ask.id, {}, context)).markdown == "No tool is called before there is a run."


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({}, None),
        ({"type": "object"}, None),
        ({"type": "string"}, "#/type"),
        ({"properties": {"a b": {}}}, "#/properties"),
    ],
)
def test_a_schema_that_no_model_takes_is_found(schema: dict[str, Any], where: str | None) -> None:
    reason = unusable_reason(ClientTool(name="x", inputSchema=schema))

    assert (None if reason is None else reason.where) == where
