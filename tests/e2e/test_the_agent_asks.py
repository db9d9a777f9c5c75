"""Questions of the agent to a person, and their answers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.e2e.agents import MESSAGES, every_agent, without_cli
from tests.e2e.stories import Heard, World, WorldOf, a_request, a_world

ASKER = "claude_agents:asker"
COLOR = {
    "question": "Which color?",
    "header": "Color",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
    "multiSelect": False,
}
SIZES = {
    "question": "Which sizes?",
    "header": "Sizes",
    "options": [{"label": size, "description": f"size {size}"} for size in "SML"],
    "multiSelect": True,
}


def settings(directory: Path, *, timeout_s: float = 60) -> dict[str, Any]:
    """A graph whose agent may ask."""
    graphs = directory / "graphs"
    graphs.mkdir(exist_ok=True)
    (graphs / "asker.md").write_text(
        f"---\ndescription: Asks.\nquestions: true\nquestion_timeout_s: {timeout_s}\n---\nAsk.\n"
    )
    return {"RUNTALLY_GRAPHS_DIR": graphs}


def asking(*questions: dict[str, Any]) -> Reply:
    return Reply([Text("Well."), ToolUse("AskUserQuestion", {"questions": list(questions)})])


@every_agent
async def test_the_run_waits_for_the_answers_and_the_model_gets_them(
    world_of: WorldOf, tmp_path: Path
) -> None:
    """One option, several, a text of the person's own; answers that are wrong leave the question open."""
    script = in_turn(asking(COLOR, SIZES), asking(COLOR), Reply([Text("So be it.")]))
    world = await world_of(script, **settings(tmp_path))
    run_id, asked = await the_question(world)

    assert asked["source"] == "agent"
    assert asked["questions"] == [COLOR, SIZES]
    missing = await answer(world, run_id, asked, {"Which color?": "Red"})
    several = await answer(world, run_id, asked, {"0": ["Red", "Blue"], "1": []})
    unknown = await answer(world, run_id, asked, {"0": "Red", "1": "S", "Why?": "x"})
    nobodys = await answer(world, run_id, {"requestId": "none"}, {"0": "Red"})
    done = await answer(world, run_id, asked, {"Which color?": "Red", "Which sizes?": ["S", "L"]})
    again = await answer(world, run_id, asked, {"0": "Red", "1": ["S", "L"]})
    other = await answer(world, run_id, asked, {"0": "Blue", "1": ["S", "L"]})
    second = await latest_question(world, run_id, after=asked)
    await answer(world, run_id, second, {"0": "A <b>green</b> one"})
    events = await world.events(run_id)

    statuses = [each.status_code for each in (missing, several, unknown, nobodys, done, again, other)]
    assert statuses == [422, 422, 422, 404, 200, 200, 409]
    fields = [each.json()["errors"][0]["field"] for each in (missing, several, unknown)]
    assert fields == ["answers.1", "answers.0", "answers.Why?"]
    assert [nobodys.json()["code"], other.json()["code"]] == ["question_not_found", "question_answered"]
    first, last = [str(request.tool_results[0]["content"]) for request in world.simulator.requests[1:3]]
    assert '"Which color?"="Red", "Which sizes?"="S, L"' in first
    assert '"Which color?"="A <b>green</b> one"' in last
    assert [result.data["result"] for result in of_type(events, "tool_call_result")] == [
        {"answers": {"Which color?": "Red", "Which sizes?": "S, L"}},
        {"answers": {"Which color?": "A <b>green</b> one"}},
    ]
    assert [resolved.data["answers"] for resolved in of_type(events, "question_resolved")] == [
        [["Red"], ["S", "L"]],
        [["A <b>green</b> one"]],
    ]
    assert world.simulator.requests[0].tool_names == ["AskUserQuestion"]


@every_agent
@pytest.mark.parametrize(("timeout_s", "told"), [(0.3, "in time"), (60, "declined")])
async def test_silence_and_a_refusal_are_errors_that_say_so(
    world_of: WorldOf, tmp_path: Path, timeout_s: float, told: str
) -> None:
    script = in_turn(asking(COLOR), Reply([Text("I see.")]))
    world = await world_of(script, **settings(tmp_path, timeout_s=timeout_s))
    run_id, asked = await the_question(world)

    if told == "declined":
        assert (await answer(world, run_id, asked, None)).status_code == 200
    events = await world.events(run_id)

    (result,) = world.simulator.requests[1].tool_results
    assert result["is_error"]
    assert told in str(result["content"])
    (resolved,) = of_type(events, "question_resolved")
    assert resolved.data["resolvedBy"] == ("declined" if told == "declined" else "expired")
    (shown,) = of_type(events, "tool_call_result")
    assert shown.data["isError"]
    assert events[-1].data["finishReason"] == "stop"


@every_agent
@pytest.mark.parametrize("how", ["cancel", "interrupt"])
async def test_a_run_that_is_stopped_waits_no_longer(world_of: WorldOf, tmp_path: Path, how: str) -> None:
    world = await world_of(in_turn(asking(COLOR)), **settings(tmp_path))
    run_id, asked = await the_question(world)

    await world.http.post(f"/v1/runs/{run_id}/{how}")
    events = await world.events(run_id)

    (resolved,) = of_type(events, "question_resolved")
    assert resolved.data["resolvedBy"] == "run_stopped"
    late = await answer(world, run_id, asked, {"0": "Red"})
    assert (late.status_code, late.json()["code"]) == (409, "run_ended")


@without_cli
async def test_two_people_answer_on_two_servers_and_one_counts(
    world_of: WorldOf, tmp_path: Path, database_url: str, redis_url: str
) -> None:
    graphs = settings(tmp_path)
    world = await world_of(in_turn(asking(COLOR), Reply([Text("Fine.")])), REDIS_URL=redis_url, **graphs)
    run_id, asked = await the_question(world)
    other_world = a_world(
        tmp_path / "other", database_url, in_turn(), REDIS_URL=redis_url, agent=MESSAGES, **graphs
    )
    async with other_world as other:
        wrong = await answer(other, run_id, asked, {})
        answers = await asyncio.gather(
            answer(world, run_id, asked, {"0": "Red"}), answer(other, run_id, asked, {"0": "Blue"})
        )
    events = await world.events(run_id)

    assert wrong.json()["errors"][0]["field"] == "answers.0"
    assert sorted(each.status_code for each in answers) == [200, 409]
    (resolved,) = of_type(events, "question_resolved")
    assert resolved.data["answers"] == [["Red"] if answers[0].status_code == 200 else ["Blue"]]


async def the_question(world: World) -> tuple[str, dict[str, Any]]:
    """A run whose agent asks, and its first question."""
    run_id = await world.start(a_request(graphId=ASKER))
    return run_id, (await world.events(run_id, until="question"))[-1].data


async def latest_question(world: World, run_id: str, *, after: dict[str, Any]) -> dict[str, Any]:
    """The question that comes after this one."""
    async for event in world.follow(run_id):
        if event.type == "question" and event.data["requestId"] != after["requestId"]:
            return event.data
    raise AssertionError


async def answer(world: World, run_id: str, asked: dict[str, Any], answers: Any) -> Any:
    return await world.http.post(
        f"/v1/runs/{run_id}/questions/{asked['requestId']}", json={"answers": answers}
    )


def of_type(events: list[Heard], kind: str) -> list[Heard]:
    return [event for event in events if event.type == kind]
