"""Roles, aliases and options of the operator's registry, as the model's API sees them."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import Answer, ApiRequest, Hold, HttpError, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import every_agent, every_agent_at_length, without_cli
from tests.e2e.stories import World, WorldOf, a_request
from tests.graph_files import graph_files

REGISTRY = """
aliases:
  fast: claude-haiku-4-5
roles:
  triage: fast
  summarizing: claude-opus-4-5
  curator: claude-opus-4-5-20251101
models:
  - {id: claude-haiku-4-5, max_output_tokens: 500}
  - {ids: [claude-opus-4-5, claude-opus-5-5], effort: low, max_output_tokens: 8000}
  - {pattern: claude-opus-4-5-.*, thinking: 2048}
  - {id: claude-sonnet-5-5, fallback: fast}
"""


@pytest.fixture
def models_file(tmp_path: Path) -> Path:
    path = tmp_path / "models.yaml"
    path.write_text(REGISTRY)
    return path


async def _asked(world: World, **fields: Any) -> dict[str, Any]:
    """What the API is asked for a run with these fields."""
    (*_, done) = await world.run(a_request(**fields))
    assert done.data["finishReason"] == "stop"
    return world.simulator.requests[-1].body


OLD = "claude-haiku-4-5"
MODELS_WITH_EFFORT = ("claude-sonnet-4-6", "claude-opus-4-7", "claude-haiku-5-5")

OPTIONS: list[tuple[str, dict[str, Any]]] = [
    ("triage", {"model": "claude-haiku-4-5", "max_tokens": 500, "thinking": None}),
    (
        "summarizing",
        {"model": "claude-opus-4-5", "max_tokens": 8000, "output_config": {"effort": "low"}},
    ),
]
"""What the API is asked for a model of the registry."""


async def test_the_registrys_options_reach_the_model(world_of: WorldOf, models_file: Path) -> None:
    world = await world_of(lambda _: Reply([Text("hi")]), RUNTALLY_MODELS_FILE=models_file)

    for model, asked in OPTIONS:
        body = await _asked(world, model=model)
        assert {name: body.get(name) for name in asked} == asked, model
        run = (await world.http.get("/v1/runs")).json()["items"][0]
        assert run["model"] == asked["model"], model


@without_cli
async def test_a_graph_may_name_a_role_and_its_own_thinking_wins(
    world_of: WorldOf, models_file: Path, tmp_path: Path
) -> None:
    head = "description: d\nmodel: curator\nthinking_budget_tokens: 5000"
    world = await world_of(
        lambda _: Reply([Text("hi")]),
        RUNTALLY_MODELS_FILE=models_file,
        **graph_files(tmp_path, mine=f"---\n{head}\n---\nHi."),
    )

    body = await _asked(world, graphId="claude_agents:mine")
    of_registry = await world.http.post("/v1/runs/preview", json=a_request(model="curator"))
    too_short = await world.http.post("/v1/runs", json=a_request(graphId="claude_agents:mine", model="fast"))

    assert (body["model"], body["thinking"]["budget_tokens"]) == ("claude-opus-4-5-20251101", 5000)
    assert of_registry.json()["modelOptions"]["thinking"] == 2048
    assert (too_short.status_code, too_short.json()["errors"][0]["field"]) == (422, "model")
    assert "claude-haiku-4-5" in too_short.json()["detail"]


@every_agent
async def test_a_request_chooses_within_what_the_graph_allows(world_of: WorldOf, tmp_path: Path) -> None:
    (tmp_path / "mine.md").write_text("---\ndescription: d\neffort: medium\ntask_budget: 60000\n---\nHi.")
    world = await world_of(lambda _: Reply([Text("hi")]), RUNTALLY_GRAPHS_DIR=tmp_path)
    graph = {"graphId": "claude_agents:mine", "model": "opus"}

    allowed = await _asked(world, **graph, effort="max", taskBudget=100_000)
    lowered = await _asked(world, **graph, effort="low", taskBudget=20_000)
    beta = world.simulator.requests[-1].headers["anthropic-beta"]
    too_old = await world.http.post("/v1/runs", json=a_request(**{**graph, "model": OLD}, effort="low"))

    assert allowed["output_config"] == {
        "effort": "medium",
        "task_budget": {"type": "tokens", "total": 60_000},
    }
    assert lowered["output_config"] == {"effort": "low", "task_budget": {"type": "tokens", "total": 20_000}}
    assert "task-budgets-2026-03-13" in beta
    assert (too_old.status_code, too_old.json()["detail"]) == (422, f"effort: {OLD} takes no effort")


@every_agent_at_length
async def test_a_model_is_sent_the_effort_that_its_preview_shows(world_of: WorldOf, tmp_path: Path) -> None:
    """The CLI knows by itself what its models take; both executors send the same."""
    for effort in ("xhigh", "max"):
        (tmp_path / f"{effort}.md").write_text(f"---\ndescription: d\neffort: {effort}\n---\nHi.")
    world = await world_of(lambda _: Reply([Text("hi")]), RUNTALLY_GRAPHS_DIR=tmp_path)

    for effort, model in product(("xhigh", "max"), (OLD, *MODELS_WITH_EFFORT)):
        run = {"graphId": f"claude_agents:{effort}", "model": model}
        preview = (await world.http.post("/v1/runs/preview", json=a_request(**run))).json()
        asked = await _asked(world, **run)
        assert asked.get("output_config", {}).get("effort") == preview["modelOptions"]["effort"], run


async def test_subagents_have_efforts_and_turns_of_their_own(world_of: WorldOf, tmp_path: Path) -> None:
    agent = "{description: d, prompt: p, max_turns: 1, effort: low, tools: [core__get_current_time]}"
    keys = f"description: d\neffort: high\ntools: [core__get_current_time]\nagents:\n  helper: {agent}"
    (tmp_path / "mine.md").write_text(f"---\n{keys}\n---\nHi.")
    task = {"subagent_type": "helper", "description": "d", "prompt": "ask"}

    def script(request: ApiRequest) -> Answer:
        if request.system.rsplit("\n", 1)[-1] == "p":
            return Reply([ToolUse("mcp__runtally__core__get_current_time", {})])
        return Reply([Text("done")] if request.tool_results else [ToolUse("Agent", task)])

    world = await world_of(script, RUNTALLY_GRAPHS_DIR=tmp_path)
    await _asked(world, graphId="claude_agents:mine", model="opus")

    efforts = [request.body["output_config"]["effort"] for request in world.simulator.requests]
    assert efforts == ["high", "low", "high"]


async def test_an_overloaded_model_is_replaced_by_its_fallback_which_has_credit(
    world_of: WorldOf, tmp_path: Path
) -> None:
    path = tmp_path / "models.yaml"
    path.write_text("models: [{id: claude-haiku-4-5, max_output_tokens: 1000, fallback: claude-opus-4-5}]")
    hold = Hold(index=4)

    def overloaded(request: ApiRequest) -> Answer:
        if request.body["model"] == "claude-haiku-4-5":
            return HttpError(529, "overloaded_error")
        return Reply([Text("one two")], hold=hold)

    world = await world_of(overloaded, RUNTALLY_MODELS_FILE=path)
    account = await world.account_id()
    await world.services.ledger.change_mode(account, "prepaid")
    await world.services.ledger.grant(account, 10_000_000)

    run_id = await world.start(a_request(model="claude-haiku-4-5"))
    accepted = (await world.http.get("/v1/balance")).json()["reserved"]
    await hold.reached.wait()
    called = (await world.http.get("/v1/balance")).json()["reserved"]
    hold.until.set()
    run = await world.ended(run_id)
    (receipt,) = await world.receipts(run_id)

    assert run["final"]["content"] == "one two"
    assert (receipt["model"], receipt["basis"]) == ("claude-opus-4-5", "final")
    assert receipt["costUsd"] == "0.0005500000"
    # A thousand tokens of opus cost 0.025 dollars, of haiku 0.005; beside them there is the prompt.
    assert 250_000 < accepted < 500_000
    assert 250_000 < called < 500_000


async def test_models_are_listed_with_names_options_and_prices(world_of: WorldOf, models_file: Path) -> None:
    world = await world_of(in_turn(), RUNTALLY_MODELS_FILE=models_file)

    answer = (await world.http.get("/v1/models")).json()

    listed = {model["id"]: model for model in answer["items"]}
    assert answer["nextCursor"] is None
    assert list(listed) == sorted(listed)
    assert set(listed) == {
        *("claude-haiku-4-5", "claude-haiku-5-5", "claude-opus-4-5", "claude-opus-5-5"),
        *("claude-opus-4-5-20251101", "claude-sonnet-5-5"),
    }
    assert listed["claude-haiku-4-5"] == {
        "id": "claude-haiku-4-5",
        "aliases": ["fast"],
        "roles": ["triage"],
        "efforts": [],
        "options": {
            "thinking": "disabled",
            "effort": None,
            "maxOutputTokens": 500,
            "fallback": None,
            "contextWindow": 200_000,
        },
        "priced": True,
        "inputUsdPerMTok": "1.0000000000",
        "outputUsdPerMTok": "5.0000000000",
        "cacheReadUsdPerMTok": "0.1000000000",
        "cacheWrite5mUsdPerMTok": "1.2500000000",
        "cacheWrite1hUsdPerMTok": "2.0000000000",
    }
    assert listed["claude-sonnet-5-5"]["options"]["fallback"] == "claude-haiku-4-5"
    assert listed["claude-sonnet-5-5"]["roles"] == [
        *("default", "candidate_extraction", "reconcile", "repair"),
    ]
