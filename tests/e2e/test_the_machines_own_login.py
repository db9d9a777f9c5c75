"""RUNTALLY_CLAUDE_AUTH=local_session: no key, no gateway, and nothing that could bring another provider.

A real login is never touched: the CLI gets a configuration directory of the test's own. Where a call
is to succeed, the test gives the CLI a base URL by hand, which the server itself never does.
"""

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.executors.claude_agent.process.cli import Cli
from app.executors.claude_agent.process.provider_variables import chooses_provider
from app.simulator.script import Reply, Text, ToolUse, in_turn
from app.simulator.server import Simulator
from tests.e2e.recording_cli import a_login, a_recording_cli, assert_isolated, starts
from tests.e2e.stories import CALCULATOR, PROVIDER_KEY, OpenWorld, a_request, said
from tests.e2e.test_a_graph_gives_work_to_subagents import LEAD, delegating, graphs, looks_at_the_clock
from tests.e2e.the_bill import bill, wire
from tests.e2e.workshop import EDITOR
from tests.e2e.workshop import settings as the_editor
from tests.patience import PATIENCE_S
from tests.provider.usage_objects import Iteration, TokenCounts, UsageObject

ROUTING = {
    **dict.fromkeys(
        ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"), "sk-of-the-server"
    ),
    **dict.fromkeys(("ANTHROPIC_BASE_URL", "ANTHROPIC_BEDROCK_BASE_URL"), "http://127.0.0.1:9"),
    **dict.fromkeys(("ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_SONNET_MODEL"), "m"),
    **dict.fromkeys(("ANTHROPIC_CUSTOM_HEADERS", "ANTHROPIC_VERTEX_PROJECT_ID"), "x"),
    **dict.fromkeys(("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"), "1"),
    **dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"), "x"),
    **dict.fromkeys(("AWS_REGION", "AWS_PROFILE", "CLOUD_ML_REGION"), "x"),
    **dict.fromkeys(("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT"), "x"),
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"), "http://127.0.0.1:9"),
    **dict.fromkeys(("CLAUDE_CODE_EXTRA_BODY", "NODE_OPTIONS", "NODE_EXTRA_CA_CERTS"), "x"),
}


def logged_in(tmp_path: Path, *, reach: bool = True) -> dict[str, Any]:
    """A world whose CLI has a login and, if it may reach anything, reaches the simulator."""

    def cli(simulator: Simulator) -> Cli:
        simulator.accepted_keys = None
        return a_recording_cli(tmp_path, {"ANTHROPIC_BASE_URL": simulator.url} if reach else None)

    return {
        "cli": cli,
        "RUNTALLY_CLAUDE_AUTH": "local_session",
        "RUNTALLY_CLAUDE_CONFIG_DIR": a_login(tmp_path / "login"),
        "ANTHROPIC_API_KEY": None,
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
    }


async def test_a_run_with_a_tool_is_answered_by_the_login_and_billed_by_the_sdk(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    usage = {"input_tokens": 11, "output_tokens": 1, "cache_creation_input_tokens": 40}
    written = {"cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 30}}
    script = in_turn(
        Reply([ToolUse(CALCULATOR, {"expression": "6*7"})], usage={**usage, **written}),
        Reply([Text("It is 42.")], final_usage={"output_tokens": 9, "cache_read_input_tokens": 40}),
    )
    async with open_world(script, **logged_in(tmp_path)) as world:
        events = await world.run(a_request("6*7?", graphId="claude_agents:analyst"))
        run_id = events[0].data["runId"]
        run, receipts = await world.ended(run_id), await world.receipts(run_id)
        asked, sent = world.simulator.requests, world.simulator.sent

    assert said(events) == "It is 42."
    assert bill(receipts) == wire(sent)
    assert [receipt["origin"] for receipt in receipts] == ["assistant", "assistant"]
    assert run["billing"]["meters"] == {"sdk": 2, "gateway": 0}
    assert run["billing"]["drift"] == 0
    assert {request.headers["authorization"] for request in asked} == {"Bearer sk-ant-oat01-of-a-test"}
    assert not any("x-api-key" in request.headers for request in asked)
    assert [tool for request in asked for tool in request.tool_names if "__core__" not in tool] == []


async def test_no_provider_variable_reaches_the_cli_and_the_whole_usage_of_a_message_is_on_its_receipt(
    open_world: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what only the price needs: the region, the speed, searches, and an advisor's calls."""
    counts = TokenCounts(input=1_001, output=2_003, cache_read=3_007, cache_write_5m=4_009, cache_write_1h=5)
    usage = UsageObject(
        counts,
        inference_geo="us",
        speed="fast",
        service_tier="standard",
        server_tools={"web_search_requests": 2},
        iterations=[
            Iteration("message", counts),
            Iteration("advisor_message", TokenCounts(5_000, 100), "claude-opus-4-8"),
        ],
    )
    reply = Reply([Text("hi")], usage=usage.started(), final_usage=usage.ended())
    async with open_world(in_turn(reply), **logged_in(tmp_path)) as world:
        for name, value in ROUTING.items():
            monkeypatch.setenv(name, value)
        run_id = await world.start(a_request(model="claude-opus-5-5"))
        run = await world.ended(run_id)
        (receipt,) = await world.receipts(run_id)

    (start,) = [start for start in starts(tmp_path) if start.is_run]
    assert {name for name in start.environment if chooses_provider(name)} == {"ANTHROPIC_BASE_URL"}
    assert "sk-of-the-server" not in str(start)
    assert start.environment["CLAUDE_CONFIG_DIR"] == str(tmp_path / "login")
    assert_isolated(start)
    assert "--bare" not in start.arguments
    assert receipt["providerUsage"] == reply_usage(reply)
    assert (receipt["inferenceGeo"], receipt["speed"], receipt["serviceTier"]) == ("us", "fast", "standard")
    assert (receipt["stopReason"], receipt["unpriced"]) == ("end_turn", [])
    # 4, 20, 0.2, 5 and 8 dollars per million tokens, twice for speed; the advisor's 5 and 25 are not doubled.
    own = Decimal("0.004004") + Decimal("0.04006") + Decimal("0.0006014") + Decimal("0.020045")
    expected = ((own + Decimal("0.00004")) * 2 + Decimal("0.0275")) * Decimal("1.1") + Decimal("0.02")
    assert Decimal(receipt["costUsd"]) == expected
    assert (run["billing"]["drift"], run["billing"]["costComparison"]["driftUsd"]) == (0, "0.0000000000")


def reply_usage(reply: Reply) -> dict[str, Any]:
    """What the provider has reported in the end; nulls replace nothing."""
    final = {name: value for name, value in reply.final_usage.items() if value is not None}
    return {**reply.usage, **final}


async def test_without_a_login_a_run_fails_whatever_keys_the_server_has(
    open_world: OpenWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = logged_in(tmp_path, reach=False)
    (tmp_path / "login" / ".credentials.json").unlink()
    options["ANTHROPIC_API_KEY"] = PROVIDER_KEY
    async with open_world(in_turn(), **options) as world:
        monkeypatch.setenv("ANTHROPIC_API_KEY", PROVIDER_KEY)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", world.simulator.url)
        events = await world.run(a_request())
        run_id = events[0].data["runId"]
        own = world.services.readiness
        assert own is not None
        async with asyncio.timeout(PATIENCE_S):
            while not own.checked:
                await asyncio.sleep(0.01)
        readiness = await world.http.get("/readyz")
        receipts = await world.receipts(run_id)
        asked = world.simulator.requests

    assert [event.data["error"] for event in events if event.type == "error"] == ["provider_unavailable"]
    assert "login" not in str(events)
    assert (receipts, asked) == ([], [])
    assert "auth login" in (own.problem or "")
    assert (readiness.status_code, readiness.json()["provider"]) == (200, "unusable")


async def test_a_conversation_goes_on_and_leaves_nothing_with_the_login(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    options = logged_in(tmp_path)
    async with open_world(lambda _: Reply([Text("hello")]), **options) as world:
        runs = [await world.run(a_request(prompt, stateKey="chat")) for prompt in ("one", "two")]
        receipts = [r for run in runs for r in await world.receipts(run[0].data["runId"])]
        ended = await world.ended(runs[1][0].data["runId"])
        second = world.simulator.requests[-1]

    assert "one" in str(second.messages)
    assert bill(receipts) == wire(world.simulator.sent)
    assert ended["billing"]["drift"] == 0
    assert list((tmp_path / "login" / "projects").glob("*")) == []


async def test_what_the_sdk_does_not_show_of_subagents_is_charged_in_one_receipt(
    open_world: OpenWorld, tmp_path: Path
) -> None:
    model = delegating(background=False, helper=looks_at_the_clock)
    async with open_world(model, **logged_in(tmp_path), **graphs(tmp_path)) as world:
        events = await world.run(a_request("time?", graphId=LEAD))
        run_id = events[0].data["runId"]
        receipts, run = await world.receipts(run_id), await world.ended(run_id)
        sent = world.simulator.sent

    assert run["final"]["content"] == "It is late."
    hidden = [receipt for receipt in receipts if receipt["origin"] == "hidden"]
    of_subagent = [message for message in sent if message.model == "claude-haiku-4-5"]
    assert len(of_subagent) == 2
    assert [(r["model"], r["inputTokens"], r["outputTokens"]) for r in hidden] == [
        ("claude-haiku-4-5", 20, 40)
    ]
    assert len(receipts) == len(sent) - 1
    assert run["billing"]["drift"] == 1
    assert run["billing"]["costComparison"]["driftUsd"] == "0.0000000000"


async def test_native_tools_and_the_login_are_never_together(open_world: OpenWorld, tmp_path: Path) -> None:
    options = {**logged_in(tmp_path), **the_editor(tmp_path)}
    async with open_world(in_turn(), **options) as world:
        refused = await world.http.post("/v1/runs", json=a_request("go", graphId=EDITOR))
        asked = world.simulator.requests

    assert (refused.status_code, refused.json()["code"]) == (503, "sandbox_unavailable")
    assert "login" not in refused.text
    assert asked == []
    assert not [start for start in starts(tmp_path) if start.is_run]
