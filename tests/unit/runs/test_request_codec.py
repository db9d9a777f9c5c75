"""Requests as they are kept and compared."""

from typing import Any

import pytest

from app.graph import GraphRunRequest
from app.runs.request_codec import SMALL_BYTES, RequestCodec

LONG = "é" * SMALL_BYTES


def a_request(text: str, **fields: Any) -> GraphRunRequest:
    posted = {"graphId": "claude_agents:demo", "messages": [{"role": "user", "content": text}]}
    return GraphRunRequest.model_validate({**posted, **fields})


@pytest.mark.parametrize("text", ["short", LONG, '"' * 2000])
async def test_a_request_comes_back_as_it_was(text: str) -> None:
    huge = {"type": "json_schema", "schema": {"maximum": 10**30, "multipleOf": 0.5}}
    request = a_request(text, responseFormat=huge, limits={"maxBudgetUsd": "0.10", "timeoutS": 2})
    codec = RequestCodec()

    assert await codec.decode(await codec.encode(request)) == request


async def test_equal_requests_have_one_fingerprint() -> None:
    codec = RequestCodec()
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
    codec = RequestCodec()

    assert await codec.fingerprint(other) != await codec.fingerprint(a_request(LONG))
