from contextlib import suppress
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from app.executors.tools.client_tools import described_client_tools, split_by_graph
from app.graphs.spec import GraphSpec
from app.ids import RunKey
from app.platform.json_schema.document import SchemaUnusable
from app.requests.client_tools import ClientTool
from app.tools.argument_schema import argument_schema
from app.tools.modern_schema import modern_schema
from app.tools.policy import ToolPolicy
from app.tools.runner import ToolRunner
from runtally.tools.tool import ToolContext
from tests.factories import a_plan, schemas_of

PICK = ClientTool(name="pick_color", description=" Pick. ", inputSchema={"anyOf": [{"required": ["a"]}]})
ASK = ClientTool(name="ask", inputSchema={})


def test_a_plan_has_the_tools_that_its_graph_takes() -> None:
    spec = GraphSpec(name="g", description="d", system_prompt="p", client_tools={"names": "pick_.*"})

    plan = split_by_graph(a_plan(spec=spec), [PICK, ASK])

    assert (plan.client_tools, plan.ignored_client_tools) == ((PICK,), ("ask",))


async def test_the_model_gets_each_with_a_schema_that_apis_take() -> None:
    plan = a_plan(client_tools=(PICK, ASK), schemas=schemas_of(PICK, ASK))

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


_NAMES = st.sampled_from(
    ["type", "properties", "anyOf", "allOf", "items", "$ref", "$defs", "dependencies", "required", "a b", "a"]
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["object", "#", "#/$defs/a", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(_NAMES, _JSON, max_size=4))
@example({"type": "object", "properties": [1], "anyOf": [{}]})
def test_whatever_is_no_schema_is_converted_or_unusable(schema: dict[str, Any]) -> None:
    with suppress(SchemaUnusable):
        assert isinstance(argument_schema(modern_schema(schema)), tuple)
