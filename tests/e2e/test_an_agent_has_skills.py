"""Skills of the operator: the agent knows their names, reads what it needs, and finds no others."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.errors import OperatorError
from app.simulator.script import Answer, ApiRequest, Reply, Text, ToolUse
from tests.e2e.agents import every_agent
from tests.e2e.stories import ASSISTANT, WorldOf, a_request
from tests.e2e.workshop import EDITOR, answered, bash, calling, files, results, upload
from tests.e2e.workshop import settings as workshop_settings
from tests.programs import require

READ = "mcp__runtally__skills__read"
WRITER = "claude_agents:writer"
PLANTED = "planted-by-somebody"


def plant(directory: Path, name: str, text: str = "Say BANANA.") -> Path:
    folder = directory / name
    folder.mkdir(parents=True)
    head = f"---\nname: {name}\ndescription: Knows how to {name}.\nallowed-tools: Bash, Read\n---\n"
    (folder / "SKILL.md").write_text(f"{head}{text} Use Bash.")
    (folder / "data.txt").write_text("the numbers")
    return folder


def settings(directory: Path, skills: str = "[report]") -> dict[str, Any]:
    graphs = directory / "graphs"
    graphs.mkdir()
    head = f"description: d\nskills: {skills}\nrules: [{{tool: skills__read, do: allow}}]"
    (graphs / "writer.md").write_text(f"---\n{head}\n---\nWrite reports.")
    for name in ("report", "audit"):
        plant(directory / "skills", name)
    return {"RUNTALLY_GRAPHS_DIR": graphs, "RUNTALLY_SKILLS_DIR": directory / "skills"}


@every_agent
async def test_an_agent_reads_a_skill_when_it_needs_it(
    world_of: WorldOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The skill names a tool that the graph has not; others lie where programs look for their own."""
    for place in (tmp_path / "home" / ".claude", tmp_path / "project" / ".claude", tmp_path / "xdg"):
        plant(place / "skills", PLANTED)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "xdg"))
    monkeypatch.chdir(tmp_path / "project")
    model = calling(
        ToolUse(READ, {"skill": "report"}),
        ToolUse(READ, {"skill": "report", "path": "data.txt"}),
        ToolUse(READ, {"skill": "report", "path": "../../etc/passwd"}),
        ToolUse(READ, {"skill": "audit"}),
        ToolUse(READ, {"skill": PLANTED}),
        ToolUse("Bash", {"command": "id", "description": "x"}),
    )
    world = await world_of(model, **settings(tmp_path))
    body = a_request("report", graphId=WRITER)

    listed = {graph["id"]: graph for graph in (await world.http.get("/v1/graphs")).json()["items"]}
    preview = (await world.http.post("/v1/runs/preview", json=body)).json()
    events = await world.run(body)

    shown = [(listed[name]["skills"], listed[name]["hasRules"]) for name in (WRITER, ASSISTANT)]
    assert shown == [(["report"], True), ([], False)]

    asked = world.simulator.requests
    assert events[-1].data["finishReason"] == "stop"
    assert "- report: Knows how to report." in asked[0].system
    assert ["BANANA" in json.dumps(request.body) for request in asked[:2]] == [False, True]
    assert "the numbers" in answered(world)[1]
    assert [failed for _, failed in results(events)] == [False, False, True, True, True, True]
    assert {"audit", PLANTED}.isdisjoint(asked[0].system.split())
    assert all("uid=" not in told and "root:" not in told for told in answered(world))
    assert PLANTED not in json.dumps([request.body["tools"] for request in asked])
    assert [tool["id"] for tool in preview["tools"]] == ["skills__read"]
    run = (await world.http.get(f"/v1/runs/{events[0].data['runId']}")).json()
    assert run["skills"] == preview["skills"]
    assert [len(sha256) for sha256 in run["skills"].values()] == [64]
    assert str(tmp_path) not in json.dumps([event.data for event in events])


async def test_a_subagent_reads_the_skills_that_it_has(world_of: WorldOf, tmp_path: Path) -> None:
    helpers = {"clerk": "skills: [report]", "guest": "tools: []"}
    agents = [
        f"  {name}: {{description: Helps., prompt: You are the {name}., {keys}}}"
        for name, keys in helpers.items()
    ]
    chosen = settings(tmp_path, "[report, audit]")
    graph = tmp_path / "graphs" / "writer.md"
    graph.write_text(graph.read_text().replace("---\nWrite", "\n".join(["agents:", *agents, "---", "Write"])))

    def respond(request: ApiRequest) -> Answer:
        first = len(request.messages) == 1
        if any(f"You are the {name}." in request.system for name in helpers):
            return Reply([ToolUse(READ, {"skill": "report"})] if first else [Text("Read.")])
        work = {"description": "x", "prompt": "Help."}
        return Reply(
            [ToolUse("Agent", {**work, "subagent_type": name}) for name in helpers]
            if first
            else [Text("Done.")]
        )

    world = await world_of(respond, **chosen)

    events = await world.run(a_request("go", graphId=WRITER))

    assert events[-1].data["finishReason"] == "stop"
    asked = {
        name: [r for r in world.simulator.requests if f"You are the {name}." in r.system] for name in helpers
    }
    first, second = asked["clerk"]
    assert "- report: Knows how to report." in first.system
    assert "audit" not in first.system
    assert first.tool_names == [READ]
    assert "BANANA" in json.dumps(second.tool_results)
    first, second = asked["guest"]
    assert first.tool_names == []
    assert "Knows how to" not in first.system
    assert "BANANA" not in json.dumps(second.body)


async def test_a_program_of_a_skill_runs_in_the_sandbox_if_the_graph_has_commands(
    world_of: WorldOf, tmp_path: Path
) -> None:
    require("bwrap", "socat")
    program = plant(tmp_path / "skills", "report") / "count.sh"
    program.write_text("#!/bin/sh\necho $(($1 * 7)); ls /root /home 2>&1 | head -3")
    program.chmod(0o755)
    model = calling(bash("skills/report/count.sh 6; pwd"), ToolUse(READ, {"skill": "report"}))
    given = workshop_settings(tmp_path, "skills: [report]", tools="[Bash]")
    world = await world_of(model, RUNTALLY_SKILLS_DIR=tmp_path / "skills", **given)

    events = await world.run(a_request("count", graphId=EDITOR))
    overwriting = a_request("count", graphId=EDITOR, files=[upload("skills/report/count.sh", "id")])
    refused = await world.http.post("/v1/runs", json=overwriting)

    assert events[-1].data["finishReason"] == "stop"
    assert answered(world)[0].startswith('"42')
    assert str(tmp_path) not in json.dumps(world.simulator.requests[-1].body)
    assert await files(world, events[0].data["runId"]) == {}
    assert [error["field"] for error in refused.json()["errors"]] == ["files.0.path"]


@pytest.mark.parametrize("skills", ["[repot]", "[report, report]"])
async def test_a_server_does_not_start_with_a_skill_that_does_not_exist(
    world_of: WorldOf, tmp_path: Path, skills: str
) -> None:
    with pytest.raises(OperatorError, match=r"graph file writer\.md: .*skill"):
        await world_of(calling(), **settings(tmp_path, skills))
