"""A body that is compressed is refused by the name of its header, in the form of each door."""

import gzip
import json

import pytest

from tests.e2e.stories import ASSISTANT, World
from tests.integration.conftest import in_shared_world

DOORS = {
    **dict.fromkeys(("/v1/runs", "/v1/batches", "/v1/schedules", "/v1/generate/text"), "detail"),
    **dict.fromkeys((f"/v1/ag-ui/{ASSISTANT}", f"/v1/ai-sdk/{ASSISTANT}/chat"), "detail"),
    **dict.fromkeys((f"/{name}" for name in ("openai/v1/chat/completions", "openai/v1/responses")), "error"),
    **dict.fromkeys((f"/{name}" for name in ("mcp", "managed-agents/v1/sessions")), "error"),
    "/anthropic/v1/messages": "error",
}
"""Where the sentence is."""


@in_shared_world
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("encoding", ["gzip", "identity, br"])
async def test_a_compressed_body_is_refused_by_its_header(world: World, door: str, encoding: str) -> None:
    headers = {"content-type": "application/json", "content-encoding": encoding}
    if door == "/v1/batches":
        headers["content-type"] = "application/jsonl"

    answer = await world.http.post(door, content=gzip.compress(b"{}"), headers=headers)

    told = answer.json()[DOORS[door]]
    assert answer.status_code == 415
    assert (told if isinstance(told, str) else told["message"]) == "Send the body with no Content-Encoding."
    plain = {**headers, "content-encoding": "Identity"}
    assert (await world.http.post(door, content=json.dumps([]), headers=plain)).status_code != 415
