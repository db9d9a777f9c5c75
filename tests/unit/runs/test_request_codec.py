"""Requests as they are kept and compared."""

import json
from typing import Any

import pytest

from app.graph import GraphRunRequest
from app.offload import SMALL_BYTES, Offload
from app.runs.request_codec import RequestCodec

LONG = "é" * SMALL_BYTES


def a_request(text: str, **fields: Any) -> GraphRunRequest:
    posted = {"graphId": "claude_agents:demo", "messages": [{"role": "user", "content": text}]}
    return GraphRunRequest.model_validate({**posted, **fields})


@pytest.mark.parametrize("text", ["short", LONG, '"' * 2000])
async def test_a_request_comes_back_as_it_was(text: str) -> None:
    huge = {"type": "json_schema", "schema": {"maximum": 10**30, "multipleOf": 0.5}}
    request = a_request(text, responseFormat=huge, limits={"maxBudgetUsd": "0.10", "timeoutS": 2})
    codec = RequestCodec(Offload())

    assert await codec.decode(await codec.encode(request)) == request


async def test_equal_requests_have_one_fingerprint() -> None:
    codec = RequestCodec(Offload())
    first = a_request(LONG, runId="a", responseFormat={"type": "json_schema", "schema": {"a": 1, "b": 2}})
    second = a_request(LONG, runId="b", responseFormat={"schema": {"b": 2, "a": 1}, "type": "json_schema"})

    assert await codec.fingerprint(first) == await codec.fingerprint(second)


@pytest.mark.parametrize(
    "other",
    [
        a_request(f"{LONG[:-1]}e"),
        a_request(f"{LONG}é"),
        a_request(LONG, model="claude-opus-4-5"),
        a_request("hi", files=[{"path": "a", "data": "QQ=="}]),
    ],
    ids=["a letter", "length", "model", "files"],
)
async def test_other_requests_have_another(other: GraphRunRequest) -> None:
    codec = RequestCodec(Offload())

    assert await codec.fingerprint(other) != await codec.fingerprint(a_request(LONG))


async def test_texts_of_any_length_and_kind_are_kept() -> None:
    texts = ['"\\u00000"', "\\u00001", '"\\u00002"' * 500, "😀" * 300_000, '\\"' * 200_000, "a" * 262_144]
    request = GraphRunRequest.model_validate(
        {
            "graphId": "claude_agents:demo",
            "messages": [{"role": "user", "content": [{"type": "text", "text": text} for text in texts]}],
        }
    )
    codec = RequestCodec(Offload())

    kept = await codec.encode(request)

    assert json.loads(kept)["messages"][0]["content"] == [{"type": "text", "text": each} for each in texts]
    assert await codec.decode(kept) == request
