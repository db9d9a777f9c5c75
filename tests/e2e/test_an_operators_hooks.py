"""An operator's package observes runs and their tool calls, denies some, and gives tools credentials."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import Answer, ApiRequest, Reply, Text, ToolUse
from tests.e2e.agents import CLAUDE, MESSAGES, without_cli
from tests.e2e.auditing import POST, TOKEN, heard, heard_of
from tests.e2e.stories import CALCULATOR, WorldOf, a_request
from tests.e2e.test_a_graph_gives_work_to_subagents import HEAD, LEAD, delegating, looks_at_the_clock
from tests.e2e.test_a_graph_gives_work_to_subagents import graphs as lead_graphs
from tests.e2e.workshop import EDITOR, answered, bash, calling, results
from tests.e2e.workshop import settings as the_editor
from tests.graph_files import graph_files
from tests.programs import require
from tests.unit.tools.extensions.packages import install

POSTMAN = "claude_agents:postman"
TASK = {
    "description": "time",
    "prompt": "What time is it?",
    "subagent_type": "clock-watcher",
    "run_in_background": False,
}
HERE = "tests.e2e.auditing"
Installed = Callable[..., None]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installed]:
    """`installed(hooks="Audit")` installs a package with this class."""

    def with_hooks(hooks: str = "Audit") -> None:
        install(
            tmp_path,
            monkeypatch,
            hooks={"audit": f"{HERE}:{hooks}"},
            credentials={"vault": f"{HERE}:vault"},
        )

    heard.clear()
    yield with_hooks
    heard.clear()


def postman(directory: Path, *head: str) -> dict[str, Any]:
    lines = "\n".join(["description: Sends letters.", "tools: [post__send]", *head])
    graphs = graph_files(directory, postman=f"---\n{lines}\n---\nSend letters.\n")
    return {**graphs, "RUNTALLY_TOOLS": HERE}


def to(name: str) -> ToolUse:
    return ToolUse(POST, {"to": name})


@pytest.mark.parametrize(
    ("agent", "head"),
    [(CLAUDE, ()), (CLAUDE, ("questions: true",)), (MESSAGES, ())],
    ids=["lean", "full", "messages"],
)
async def test_hooks_get_whole_calls_and_deny_some_and_a_tool_gets_its_credential(
    world_of: WorldOf, tmp_path: Path, installed: Installed, head: tuple[str, ...]
) -> None:
    installed()
    world = await world_of(
        calling(to("bob"), to("eve"), ToolUse(POST, {"name": "bob"})), **postman(tmp_path, *head)
    )
    events = await world.run(a_request(graphId=POSTMAN, stateKey="chat", limits={"maxBudgetUsd": "1"}))

    assert [each[0] for each in heard] == [
        "session_start",
        *("before_tool", "credential", "after_tool"),
        *("before_tool", "after_tool"),
        "after_tool",
        "session_end",
    ]
    told = [(call.tool_name, call.arguments, result.markdown) for call, result in heard_of("after_tool")]
    assert told[:2] == [
        ("post__send", {"to": "bob"}, "Sent to bob with [hidden]."),
        ("post__send", {"to": "eve"}, "The audit denies this."),
    ]
    assert told[2][:2] == ("post__send", {"name": "bob"})
    assert {(call.effect, call.parent_tool_call_id) for call, _ in heard_of("after_tool")} == {
        ("external_side_effect", None)
    }
    assert [error for _, error in results(events)] == [False, True, True]
    assert TOKEN not in json.dumps([request.body for request in world.simulator.requests])
    assert TOKEN not in str(events)
    contexts = [each[1] for each in heard]
    run_id = events[0].data["runId"]
    assert {(each.run.run_id, each.conversation, each.attempt) for each in contexts} == {(run_id, "chat", 0)}
    assert len({each.run.account_id for each in contexts}) == 1
    assert all(each.deadline is not None and 0 < each.budget_left_usd <= 1 for each in contexts)
    assert contexts[1].budget_left_usd < contexts[0].budget_left_usd
    (ended,) = heard_of("session_end")
    assert (ended.ok, ended.finish_reason, ended.error, ended.content) == (True, "stop", None, "done")


async def test_hooks_get_calls_of_subagents_with_the_call_that_started_them_also_after_a_wait(
    world_of: WorldOf, tmp_path: Path, installed: Installed
) -> None:
    installed()
    delegates = delegating(background=False, helper=looks_at_the_clock)

    def respond(request: ApiRequest) -> Answer:
        if "You are the clock-watcher" in request.system:
            return delegates(request)
        if not request.tool_results:
            return Reply([ToolUse(CALCULATOR, {"expression": "1+1"})])
        delegated = "Ten to twelve." in json.dumps(request.tool_results)
        return Reply([Text("It is late.") if delegated else ToolUse("Agent", TASK)])

    chosen = lead_graphs(tmp_path)
    graph = tmp_path / "graphs" / "lead.md"
    graph.write_text(HEAD.replace("agents:", "rules: [{tool: core__calculate, do: ask}]\nagents:", 1))
    world = await world_of(respond, RUNTALLY_PARK_AFTER_S=0.2, **chosen)
    run_id = await world.start(a_request("time?", graphId=LEAD))
    request = (await world.events(run_id, until="permission_request"))[-1]
    await world.parked(run_id)
    await world.decide(run_id, request.data, decision="allow")
    final = (await world.ended(run_id))["final"]

    sums, agent, clock = heard_of("before_tool")
    assert final["content"] == "It is late."
    assert [call.parent_tool_call_id for call in (sums, agent)] == [None, None]
    assert (clock.tool_name, clock.parent_tool_call_id) == ("core__get_current_time", agent.tool_call_id)
    ended = [(call.tool_name, result.is_error) for call, result in heard_of("after_tool")]
    assert ended == [(call.tool_name, False) for call in (sums, clock, agent)]
    (delegated, answer) = heard_of("after_tool")[-1]
    assert delegated.arguments["prompt"] == "What time is it?"
    assert "Ten to twelve." in answer.markdown


async def test_hooks_get_commands_and_files_with_their_results(
    world_of: WorldOf, tmp_path: Path, installed: Installed
) -> None:
    require("bwrap", "socat")
    installed()
    write = ToolUse("Write", {"file_path": "/workspace/a", "content": "1"})
    read = ToolUse("Read", {"file_path": "/etc/passwd"})
    calls = (write, bash("cat a; echo 23"), bash("rm a"), read, bash("exit 3"))
    world = await world_of(calling(*calls), **the_editor(tmp_path))
    events = await world.run(a_request("go", graphId=EDITOR))

    assert [error for _, error in results(events)] == [False, False, True, True, True]
    told = [(call.tool_name, call.effect, result.code) for call, result in heard_of("after_tool")]
    assert told == [
        ("Write", "state_change", None),
        ("Bash", "state_change", None),
        ("Bash", "state_change", "policy_denied"),
        ("Read", "read_only", "policy_denied"),
        ("Bash", "state_change", "failed"),
    ]
    (_, written), (_, output), *_ = heard_of("after_tool")
    assert ("1" in written.markdown, "23" in output.markdown) == (True, True)
    assert "The audit denies this." in answered(world)[2]


@without_cli
async def test_hooks_that_always_fail_end_no_run_and_let_no_call_through(
    world_of: WorldOf, tmp_path: Path, installed: Installed
) -> None:
    installed("Broken")
    world = await world_of(calling(to("bob")), **postman(tmp_path))
    events = await world.run(a_request(graphId=POSTMAN))

    assert events[-1].data["finishReason"] == "stop"
    assert heard == []
    assert "This call is denied: a check of this server failed." in answered(world)[0]
    assert "no audit today" not in json.dumps([request.body for request in world.simulator.requests])
    assert "no audit today" not in str(events)
    failures = {
        method: f'runtally_hook_failures_total{{hook="audit",method="{method}"}} 1.0'
        for method in ("session_start", "before_tool", "after_tool", "session_end")
    }
    exposed = world.services.metrics.render().decode()
    assert [method for method, line in failures.items() if line not in exposed] == []
