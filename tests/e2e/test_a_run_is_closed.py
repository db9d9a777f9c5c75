import json

from app.simulator.script import Reply, Text
from tests.e2e.agents import every_agent
from tests.e2e.parking import a_parking_world
from tests.e2e.stories import WorldOf, a_request


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
