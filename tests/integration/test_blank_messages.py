"""A message without a visible character is refused at every door, by the name of its field."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.blank_texts import BLANK_TEXTS
from tests.e2e.stories import ASSISTANT, World, a_request
from tests.integration.conftest import in_shared_world

STORY = "messages:assistant"
TEXT = "text"


def a_part(text: str) -> dict[str, str]:
    return {"type": TEXT, "text": text}


CHAT = "/openai/v1/chat/completions"
RESPONSES = "/openai/v1/responses"


def of_graph(graph: str, content: Any) -> dict[str, Any]:
    earlier = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
    return a_request(graphId=graph, messages=[*earlier, {"role": "user", "content": content}])


def ag_ui(content: Any) -> dict[str, Any]:
    return {"threadId": "t", "runId": "r", "messages": [{"id": "u", "role": "user", "content": content}]}


def ai_sdk(text: str) -> dict[str, Any]:
    return {"id": "c", "messages": [{"id": "u", "role": "user", "parts": [a_part(text), a_part(text)]}]}


def openai(text: str) -> dict[str, Any]:
    return {"model": ASSISTANT, "messages": [{"role": "user", "content": [a_part(text), a_part(text)]}]}


def a_schedule(text: str) -> dict[str, Any]:
    return {"cron": "0 5 * * *", "run": a_request(messages=[{"role": "user", "content": text}])}


DOORS: dict[str, tuple[str, Callable[[str], dict[str, Any]], str]] = {
    "runs": ("/v1/runs", lambda text: of_graph(ASSISTANT, text), "messages.2.content"),
    "runs, parts": ("/v1/runs", lambda text: of_graph(ASSISTANT, [a_part(text)]), "messages.2.content"),
    "runs without a process": ("/v1/runs", lambda text: of_graph(STORY, text), "messages.2.content"),
    "stream": ("/v1/runs/stream", lambda text: of_graph(ASSISTANT, text), "messages.2.content"),
    "wait": ("/v1/runs/wait", lambda text: of_graph(ASSISTANT, text), "messages.2.content"),
    "preview": ("/v1/runs/preview", lambda text: of_graph(ASSISTANT, text), "messages.2.content"),
    "AG-UI": (f"/v1/ag-ui/{ASSISTANT}", ag_ui, "messages.0.content"),
    "AG-UI, parts": (f"/v1/ag-ui/{ASSISTANT}", lambda text: ag_ui([a_part(text)]), "messages.0.content"),
    "AI SDK": (f"/v1/ai-sdk/{ASSISTANT}/chat", ai_sdk, "messages.0.parts"),
    "OpenAI": (CHAT, openai, "messages.0.content"),
    "OpenAI's responses": (RESPONSES, lambda text: {"model": ASSISTANT, "input": text}, "input"),
    "generated text": ("/v1/generate/text", lambda text: {"prompt": text}, "prompt"),
    "generated object": (
        "/v1/generate/object",
        lambda text: {"prompt": text, "schema": {"type": "object"}},
        "prompt",
    ),
    "schedules": ("/v1/schedules", a_schedule, "run.messages.0.content"),
    "a running run": ("/v1/runs/some-run/messages", lambda text: {"content": text}, "content"),
}


@in_shared_world
@pytest.mark.parametrize("door", DOORS)
async def test_a_blank_message_is_refused(world: World, door: str) -> None:
    path, body_of, field = DOORS[door]

    for text in BLANK_TEXTS:
        response = await world.http.post(path, json=body_of(text))

        assert response.status_code == 422, (text, response.text)
        problem = response.json()
        named = (
            [problem["error"]["param"]]
            if path in {CHAT, RESPONSES}
            else [each["field"] for each in problem["errors"]]
        )
        assert named == [field], text
        assert "blank" in response.text, text
    assert (await world.http.get("/v1/runs")).json()["items"] == []
    assert (await world.http.get("/v1/schedules")).json()["items"] == []
