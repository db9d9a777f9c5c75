"""An attachment as people send it gets to the model through every door; a wrong one is named at each.

What is taken of which labels and bytes: `tests/unit/requests/test_media.py`.
"""

from typing import Any

import httpx

from app.simulator.script import ApiRequest, Reply, Text, blocks_of
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import ASSISTANT, World, WorldOf
from tests.media import PDF, PIXEL, b64

AI_SDK = "/v1/ai-sdk/messages:assistant/chat"
AG_UI = "/v1/ag-ui/messages:assistant"
OPENAI = "/openai/v1/chat/completions"
RESPONSES = "/openai/v1/responses"
LOOK = {"type": "text", "text": "Look."}
EMPTY: list[Any] = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}]
SEEN = {"type": "base64", "media_type": "image/png", "data": b64(PIXEL)}
AS_LINES = b64(PIXEL)[:40] + "\r\n" + b64(PIXEL)[40:].rstrip("=")


def a_run(data: str, **fields: Any) -> dict[str, Any]:
    content = [LOOK, {"type": "image", "mediaType": "Image/JPG; q=1", "data": data}]
    messages = [*EMPTY, {"role": "user", "content": content}]
    return {"graphId": f"{MESSAGES}:assistant", "messages": messages, **fields}


async def at_all_doors(http: httpx.AsyncClient, data: str) -> list[tuple[httpx.Response, str]]:
    """Its answer, and the field that it names if it refuses the attachment."""
    field = "messages.2.content.1"
    asked = {"role": "user", "content": "And?"}
    schedule = {"cron": "0 0 1 1 *", "run": a_run(data)}
    history = [*a_run(data)["messages"], {"role": "assistant", "content": "So."}, asked]
    file = {"type": "file", "mediaType": "image/jpg", "url": f"data:image/jpg;base64,{data}"}
    chat = {"id": "chat", "messages": [{"id": "u", "role": "user", "parts": [LOOK, file]}]}
    source = {"type": "data", "value": data, "mimeType": "image/jpg"}
    message = {"id": "u", "role": "user", "content": [LOOK, {"type": "image", "source": source}]}
    thread = {"threadId": "thread", "runId": "r", "messages": [message]}
    url = {"url": f"data:image/jpg;base64,{data}"}
    question = {"role": "user", "content": [LOOK, {"type": "image_url", "image_url": url}]}
    completion = {"model": f"{MESSAGES}:assistant", "messages": [question]}
    parts = [{"type": "input_text", "text": "Look."}, {"type": "input_image", "image_url": url["url"]}]
    response = {"model": f"{MESSAGES}:assistant", "input": [{"role": "user", "content": parts}]}
    return [
        (await http.post("/v1/runs/wait", json=a_run(data)), f"{field}.data"),
        (await http.post("/v1/runs/wait", json=a_run(data, messages=history)), f"{field}.data"),
        (await http.post("/v1/runs/preview", json=a_run(data)), f"{field}.data"),
        (await http.post("/v1/runs/preview", json=a_run(data, graphId=ASSISTANT)), f"{field}.data"),
        (await http.post("/v1/schedules", json=schedule), f"run.{field}.data"),
        (await http.post(AI_SDK, json=chat), "messages.0.parts.1.url"),
        (await http.post(AG_UI, json=thread), "messages.0.content.1"),
        (await http.post(OPENAI, json=completion), "messages.0.content.1.image_url.url"),
        (await http.post(RESPONSES, json=response), "input.0.content.1.image_url"),
    ]


async def scheduled(world: World, path: str) -> None:
    triggered = (await world.http.post(f"{path}/trigger")).json()
    await world.ended(triggered["runId"])


def images(request: ApiRequest) -> list[Any]:
    return [block["source"] for message in request.messages for block in blocks_of(message, "image")]


async def test_what_people_send_gets_to_the_model_through_every_door(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("A dot.")]))

    answers = [answer for answer, _ in await at_all_doors(world.http, AS_LINES)]
    await scheduled(world, answers[4].headers["location"])

    assert [answer.status_code for answer in answers] == [*[200] * 4, 201, *[200] * 4]
    previews = [answer.json()["prompt"] for answer in answers[2:4]]
    assert [[block["source"] for block in each if block["type"] == "image"] for each in previews] == [
        [SEEN]
    ] * 2
    assert [images(request) for request in world.simulator.requests] == [[SEEN]] * 7


async def test_what_no_model_takes_is_named_at_every_door(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("A dot.")]))

    answers = await at_all_doors(world.http, b64(PDF))
    sent = {"content": a_run(b64(PDF))["messages"][-1]["content"]}
    to_a_run = await world.http.post("/v1/runs/run-1/messages", json=sent)

    for answer, field in [*answers, (to_a_run, "content.1.data")]:
        assert answer.status_code == 422, answer.text
        problem = answer.json()
        detail = problem["error"]["message"] if "error" in problem else problem["detail"]
        kinds = "image/png, image/jpeg, image/gif and image/webp"
        assert detail == f"{field}: is not an image: it is none of {kinds}"
    assert world.simulator.requests == []
