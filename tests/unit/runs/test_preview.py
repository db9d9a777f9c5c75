"""What a caller sees of a run before it is started."""

from datetime import timedelta
from typing import Any

import pytest

from app.billing.prices.price_list import PriceList
from app.errors import Invalid
from app.executors.port import Preview, RunPlan
from app.graphs.catalog import GraphCatalog, GraphNotFound
from app.graphs.spec import GraphSpec
from app.ids import AccountId, ApiKeyId, new_uuid
from app.models.registry import ModelRegistry, OperatorModels
from app.platform.concurrency.offload import Offload
from app.platform.json_schema.checker import SchemaChecker
from app.requests.messages import Message
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest
from app.runs.planner import RunPlanner
from app.runs.preview import RunPreviewer
from app.runs.requests.schema_preparation import SchemaPreparation
from app.tools.catalog import ToolCatalog
from tests.scripted import ScriptedExecutor, WriteMessage

PROMPT = "Never mention the merger."
CONDITION = "args.to == 'merger@example.org'"
RULES = [{"tool": "*", "when": CONDITION, "do": "deny"}, {"tool": "read_only", "do": "allow"}]
GRAPH = GraphSpec.model_validate(
    {"name": "clerk", "description": "d", "system_prompt": PROMPT, "rules": RULES, "approve": ["*"]}
)


async def previewed(*scopes: str, **fields: Any) -> tuple[RunPlan, Preview]:
    planner = RunPlanner(
        GraphCatalog([GRAPH]),
        ModelRegistry("haiku", OperatorModels(), is_priced=lambda _: True),
        ToolCatalog([]),
        PriceList(),
        timedelta(seconds=600),
    )
    executor = ScriptedExecutor(lambda _: [WriteMessage("Good morning.")])
    caller = Principal(AccountId(new_uuid()), ApiKeyId(new_uuid()), frozenset(scopes))
    messages = [Message.of(role="user", content="hello")]
    request = GraphRunRequest.of(**{"graph_id": GRAPH.id, "messages": messages} | fields)
    async with SchemaChecker(workers=1, check_s=5.0) as schemas:
        return await RunPreviewer(planner, executor, SchemaPreparation(schemas, Offload())).preview(
            caller, request, request_id="req-1"
        )


def of_schema(schema: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "schema_": schema}}


async def test_a_preview_is_the_plan_of_the_run_and_what_its_executor_would_do() -> None:
    plan, preview = await previewed("admin", run_id="run-7")

    assert (plan.run.run_id, plan.request_id, plan.model) == ("run-7", "req-1", "claude-haiku-5-5")
    assert plan.spec.all_rules[0].when == CONDITION
    assert preview == Preview(PROMPT, [{"type": "text", "text": "hello"}], {"actions": ["WriteMessage"]})


async def test_prompt_and_conditions_of_a_graph_are_shown_to_administrators_only() -> None:
    plan, preview = await previewed("runs:write", "runs:read", "runs:approve", "receipts:read")

    assert preview.system_prompt == f"[the graph's prompt: {len(PROMPT)} characters]"
    assert [(rule.tool, rule.when, rule.do) for rule in plan.spec.all_rules] == [
        ("*", f"[{len(CONDITION)} characters]", "deny"),
        ("read_only", None, "allow"),
        ("*", None, "ask"),
    ]
    assert "merger" not in repr(plan)


async def test_a_preview_raises_what_starting_the_run_would_raise() -> None:
    with pytest.raises(GraphNotFound):
        await previewed(graph_id="claude_agents:nobody")


async def test_a_schema_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(Invalid) as error:
        await previewed(**of_schema({"type": "text"}))

    assert [field.field for field in error.value.errors] == ["responseFormat.schema"]
