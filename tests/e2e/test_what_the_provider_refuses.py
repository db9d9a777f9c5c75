"""A request that the provider refuses because of one message ends no conversation.

Without the CLI: see `tests/integration/messages_runs`.
"""

from app.simulator.script import Answer, ApiRequest, HttpError, Reply, Text
from tests.e2e.parking import a_parking_world
from tests.e2e.stories import WorldOf
from tests.e2e.test_attachments_reach_the_model import DOT, attached, turn


async def test_an_attachment_that_is_refused_is_left_out(world_of: WorldOf) -> None:
    refusal = "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum"

    def answer(request: ApiRequest) -> Answer:
        return HttpError(400, "invalid_request_error", refusal) if attached(request) else Reply([Text("So.")])

    world = await a_parking_world(world_of, answer)
    first = await turn(world, [{"type": "text", "text": "A dot"}, DOT])
    second = await turn(world, "and again?")
    requests = world.simulator.requests
    events = await world.http.get(f"/v1/runs/{first['runId']}/events")

    # The CLI calls the model again without it.
    assert [turn["error"] for turn in (first, second)] == [None, None]
    assert [len(attached(request)) for request in requests] == [1, 0, 0]
    assert "attachments_left_out" in events.text
    assert "has refused attachment 1 (image) of the message" in events.text
    assert refusal not in events.text


async def test_a_message_that_is_too_long_ends_no_conversation(world_of: WorldOf) -> None:
    refusal = HttpError(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")

    def answer(request: ApiRequest) -> Answer:
        return refusal if "a whole book" in str(request.messages) else Reply([Text("So.")])

    world = await a_parking_world(world_of, answer)
    turns = [await turn(world, text) for text in ("hi", "a whole book", "and again?", "and again?")]
    history = (await world.http.get("/v1/sessions/chat")).json()["messages"]

    assert [each["error"] for each in turns] == [None, "invalid_request", None, None]
    last = str(world.simulator.requests[-1].messages)
    assert "[This is left out here: it is too long.]" in last
    assert "and again?" in last
    assert [message["content"] for message in history if message["type"] == "user_message"] == [
        "hi",
        "a whole book",
        "and again?",
        "and again?",
    ]


async def test_a_conversation_with_too_many_attachments_goes_on(world_of: WorldOf) -> None:
    refusal = HttpError(400, "invalid_request_error", "messages: at most 3 images are allowed")

    def answer(request: ApiRequest) -> Answer:
        return refusal if len(attached(request)) > 3 else Reply([Text("So.")])

    world = await a_parking_world(world_of, answer)
    turns = [await turn(world, [DOT, DOT]) for _ in range(2)]
    turns.append(await turn(world, "and again?"))
    requests = world.simulator.requests

    assert [each["error"] for each in turns] == [None, "invalid_request", None]
    assert [len(attached(each)) for each in requests] == [2, 4, 0]
