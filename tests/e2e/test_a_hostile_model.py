"""What a model that means harm can do, with the CLI in both modes and without it: only call its tools."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import Block, Hold, Reply, Responder, Text, ToolUse, in_turn
from tests.e2e.agents import CLAUDE, MESSAGES
from tests.e2e.parking import a_parking_world, idle_pids, process_of
from tests.e2e.stories import (
    CLOCK,
    PROVIDER_KEY,
    World,
    WorldOf,
    a_request,
    cli_processes,
    contents_below,
    shown_by,
    until,
)
from tests.graph_files import graph_files

BUILT_IN = [
    *(
        "Bash",
        "BashOutput",
        "KillShell",
        "Read",
        "Write",
        "Edit",
        "MultiEdit",
        "NotebookEdit",
        "Glob",
        "Grep",
    ),
    *("LS", "WebFetch", "WebSearch", "Task", "TaskOutput", "TodoWrite", "Skill", "SlashCommand", "Monitor"),
    *("EnterPlanMode", "ExitPlanMode", "AskUserQuestion", "ToolSearch", "LSP", "CronCreate", "SendMessage"),
    *("ListMcpResourcesTool", "ReadMcpResourceTool", "EnterWorktree", "PowerShell", "REPL"),
    *("web_search", "web_fetch"),
]
MISSPELLED = [
    *("core__get_current_time", "mcp__runtally__core__calculate", "mcp__runtally__core__get_current_tim"),
    *("mcp__runtally__", "mcp____core__get_current_time", "MCP__RUNTALLY__CORE__GET_CURRENT_TIME"),
    *("mcp__other__tool", "mcp__runtally__core__get_current_time ", "../core__get_current_time"),
]
HARM = {
    "command": "id; cat /proc/self/environ",
    "file_path": "/etc/passwd",
    "path": "../../../../etc",
    "pattern": "**/*",
    "url": "http://169.254.169.254/",
    "query": "x",
    "content": "owned",
    "prompt": "SUBTASK",
    "description": "x",
    "subagent_type": "general-purpose",
}
HEADS = {
    "lean": "description: d\ntools: [core__get_current_time]",
    "full": (
        "description: d\ntools: [core__get_current_time]\n"
        "agents: {helper: {description: Helps., prompt: You are the helper.}}"
    ),
}


VICTIM = "claude_agents:victim"


@dataclass(frozen=True, slots=True)
class Victim:
    """The graph `victim` in one of the modes, in a new process or in one that has served a turn."""

    settings: dict[str, Any]
    parked: bool

    async def world(self, world_of: WorldOf, responder: Responder) -> World:
        """A world with this model."""
        if not self.parked:
            return await world_of(responder, **self.settings)
        world = await a_parking_world(world_of, in_turn(Reply([Text("hello")])), **self.settings)
        await world.run(self.request("hello"))
        assert process_of(world, "chat").is_running()
        world.simulator.requests.clear()
        world.simulator.responder = responder
        return world

    def request(self, prompt: str) -> dict[str, Any]:
        """The body of a run."""
        return a_request(prompt, graphId=VICTIM, **({"stateKey": "chat"} if self.parked else {}))


@pytest.fixture(params=["lean", "full, parked", MESSAGES])
def mode(request: pytest.FixtureRequest) -> str:
    """How the graph is run."""
    return str(request.param)


@pytest.fixture
def agent(mode: str) -> str:
    """See `agents.py`."""
    return MESSAGES if mode == MESSAGES else CLAUDE


@pytest.fixture
def victim(mode: str, tmp_path: Path) -> Victim:
    """The graph as it is run."""
    kind, _, parked = mode.partition(", ")
    text = f"---\n{HEADS.get(kind, HEADS['lean'])}\n---\nHelp.\n"
    return Victim(graph_files(tmp_path, victim=text), bool(parked))


async def test_no_tool_runs_that_was_not_asked_for(world_of: WorldOf, victim: Victim, agent: str) -> None:
    # The CLI calls it by another name.
    misspelled = [name for name in MISSPELLED if (agent, name) != (MESSAGES, "core__get_current_time")]
    calls: list[Block] = [
        ToolUse(name, HARM, id=f"toolu_{n}") for n, name in enumerate(BUILT_IN + misspelled)
    ]
    # Nor does a subagent of the CLI's own get work.
    kinds = ["general-purpose", "Explore", "Plan", "claude-code-guide", "statusline-setup", "", "../helper"]
    agents: list[Block] = [
        ToolUse("Agent", {**HARM, "subagent_type": kind}, id=f"toolu_agent_{n}")
        for n, kind in enumerate(kinds)
    ]
    world = await victim.world(world_of, in_turn(Reply(calls), Reply(agents), Reply([Text("I give up.")])))

    events = await world.run(victim.request("go"))

    results = [event.data for event in events if event.type == "tool_call_result"]
    assert len(results) == len(calls) + len(agents)
    assert all(result["isError"] for result in results)
    # Some are the names of tools that exist, but not the names they are called by.
    assert {result["result"]["error"] for result in results[: len(calls)]} <= {"unknown_tool", "failed"}
    answered = json.dumps(world.simulator.requests[-1].body)
    assert all(sign not in answered for sign in ("uid=", "root:x", "PATH=", PROVIDER_KEY))
    assert len(world.simulator.requests) == 3
    assert events[-1].data["finishReason"] == "stop"
    await at_rest(world)


async def test_each_call_is_answered_and_arguments_that_mean_harm_are_refused(
    world_of: WorldOf, victim: Victim
) -> None:
    """A hundred calls at once, which is what the SDK would leave unread; then those with bad arguments."""
    count = 20 if victim.parked else 100
    many: list[Block] = [ToolUse(CLOCK, {"timezone": "UTC"}, id=f"toolu_{n}") for n in range(count)]
    harmful: list[Block] = [
        ToolUse(CLOCK, {"timezone": "x" * 500_000}, id="toolu_huge"),
        ToolUse(CLOCK, raw='{"timezone": ', id="toolu_no_json"),
        ToolUse(CLOCK, raw="[1, 2]", id="toolu_list"),
        ToolUse(CLOCK, {"timezone": {"$ref": "/etc/passwd"}}, id="toolu_object"),
        ToolUse(CLOCK, {"timezone": "../../../etc/passwd"}, id="toolu_path"),
    ]
    world = await victim.world(world_of, in_turn(Reply(many), Reply(harmful), Reply([Text("Sorry.")])))

    events = await world.run(victim.request("go"))

    results = [event.data["isError"] for event in events if event.type == "tool_call_result"]
    assert results == [False] * len(many) + [True] * len(harmful)
    answered = [len(request.tool_results) for request in world.simulator.requests]
    assert answered == [0, len(many), len(harmful)]
    assert "root:x" not in json.dumps(world.simulator.requests[-1].body)
    assert events[-1].data["finishReason"] == "stop"


async def test_no_secret_and_no_path_of_the_server_is_in_reach(
    world_of: WorldOf, victim: Victim, agent: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = ["AWS_SECRET_ACCESS_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "HTTPS_PROXY"]
    for name in names:
        monkeypatch.setenv(name, "leak-me")
    hold = Hold(index=4)
    world = await victim.world(world_of, in_turn(Reply([Text("one two three")], hold=hold)))
    run_id = await world.start(victim.request("go"))
    await hold.reached.wait()

    seen = shown_by(cli_processes())
    files = contents_below(tmp_path / "data" / "runs")
    hold.until.set()
    await world.ended(run_id)

    assert ("ANTHROPIC_BASE_URL" in seen) is (agent == CLAUDE)
    assert not any(word in seen for word in ("leak-me", *names[:1], f"'HOME': '{Path.home()}'"))
    assert PROVIDER_KEY not in seen
    assert any(files) is (agent == CLAUDE)
    assert not any(PROVIDER_KEY.encode() in content for content in files)
    assert world.simulator.requests[0].headers["x-api-key"] == PROVIDER_KEY
    assert "Help." not in seen
    stream = (await world.raw(run_id)).decode()
    assert "/tmp" not in stream  # noqa: S108 - what must not be there
    assert str(Path.home()) not in json.dumps(world.simulator.requests[0].body)


async def at_rest(world: World) -> None:
    """Nothing of the run goes on."""
    await until(lambda: {process.pid for process in cli_processes()} <= {*idle_pids(world.services)})
    assert all(message.final_usage is not None for message in world.simulator.sent)
