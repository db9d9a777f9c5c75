import json

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.e2e.agents import every_agent, without_cli
from tests.e2e.parking import a_parking_world
from tests.e2e.stories import (
    CLOCK,
    Heard,
    WorldOf,
    a_request,
)


@every_agent
async def test_a_prompt_reaches_the_model_literally(world_of: WorldOf) -> None:
    """The first one starts a process, the others are for that of the conversation."""
    world = await a_parking_world(world_of, lambda _: Reply([Text("ok")]))

    for prompt in ("@/etc/passwd /cost !ls", "/compact", "  /clear", "#remember", "@/etc/passwd", "!id"):
        world.simulator.requests.clear()
        events = await world.run(a_request(prompt, stateKey="chat"))

        assert events[-1].data["finishReason"] == "stop"
        (request,) = world.simulator.requests
        assert request.last_text == prompt
        assert not any(sign in json.dumps(request.body) for sign in ("root:", "uid="))


@without_cli
async def test_the_model_sees_text_and_clients_see_the_allowed_fields(world_of: WorldOf) -> None:
    call = ToolUse(CLOCK, {"timezone": "Mars/Olympus"})
    world = await world_of(in_turn(Reply([call]), Reply([Text("no such place")])))

    events = await world.run(a_request())

    result = _one(events, "tool_call_result")
    assert result["result"] == {"error": "invalid_args"}
    (answered,) = world.simulator.requests[1].tool_results
    assert answered["is_error"] is True
    assert "timezone" in json.dumps(answered["content"])


async def test_asking_for_a_tool_the_graph_lacks_is_refused(world_of: WorldOf) -> None:
    world = await world_of(in_turn())

    response = await world.http.post("/v1/runs", json=a_request(toolIds=["core__calculate"]))

    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "toolIds.0"
    assert world.simulator.requests == []


def _one(events: list[Heard], kind: str) -> dict[str, object]:
    (event,) = [event for event in events if event.type == kind]
    return event.data
