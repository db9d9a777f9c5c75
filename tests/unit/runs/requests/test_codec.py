"""Requests as they are stored and compared."""

import asyncio
import json
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.http.admission.strict_json import read_json
from app.ids import AccountId, new_uuid
from app.platform.concurrency.offload import SMALL_BYTES, Offload
from app.requests.blank import is_blank
from app.requests.run_request import GraphRunRequest
from app.runs.requests.codec import RequestCodec

LONG = "é" * SMALL_BYTES
ACCOUNT = AccountId(new_uuid())

texts = st.lists(
    st.sampled_from(['"', "\\", "u0000", "0", "\x01", "\u2028", "é", "😀", "a" * 1025, '\\"' * 600]),
    min_size=1,
).map("".join)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def a_body(text: str, **fields: Any) -> dict[str, Any]:
    return {"graphId": "claude_agents:demo", "messages": [{"role": "user", "content": text}], **fields}


def a_request(text: str, **fields: Any) -> GraphRunRequest:
    return GraphRunRequest.model_validate(a_body(text, **fields))


@pytest.mark.parametrize("text", ["short", LONG, '"' * 2000])
async def test_a_request_comes_back_as_it_was(text: str) -> None:
    huge = {"type": "json_schema", "schema": {"maximum": 10**30, "multipleOf": 0.5}}
    request = a_request(text, responseFormat=huge, limits={"maxBudgetUsd": "0.10", "timeoutS": 2})
    codec = RequestCodec(Offload())

    stored = await codec.encode(ACCOUNT, request)

    assert await codec.decode(await codec.read(stored)) == request


async def test_what_a_request_does_not_use_is_not_stored() -> None:
    """The release before, which may execute it, knows no new field."""
    body = a_body("hi")

    stored = await RequestCodec(Offload()).encode(ACCOUNT, GraphRunRequest.model_validate(body))

    assert json.loads(stored.text) == body


@pytest.mark.parametrize(("chars", "is_here"), [(10, True), (SMALL_BYTES, False)])
async def test_a_request_of_large_messages_is_built_in_a_thread(chars: int, *, is_here: bool) -> None:
    built_in = []

    def build() -> GraphRunRequest:
        built_in.append(threading.current_thread())
        return a_request("hi")

    await RequestCodec(Offload()).build(build, messages=1, chars=chars)

    assert (built_in == [threading.current_thread()]) is is_here


async def test_equal_requests_have_one_fingerprint() -> None:
    codec = RequestCodec(Offload())
    first = a_request(LONG, runId="a", responseFormat={"type": "json_schema", "schema": {"a": 1, "b": 2}})
    second = a_request(LONG, runId="b", responseFormat={"schema": {"b": 2, "a": 1}, "type": "json_schema"})
    second = second.model_copy(update={"on_disconnect": "cancel"})

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


@given(texts.filter(lambda text: not is_blank(text)), st.dictionaries(texts, values, max_size=3))
def test_any_posted_request_is_stored_unchanged(text: str, schema: dict[str, Any]) -> None:
    codec = RequestCodec(Offload())
    wanted = {"type": "json_schema", "schema": schema}
    request = GraphRunRequest.model_validate(
        read_json(json.dumps(a_body(text, responseFormat=wanted)).encode())
    )

    kept = asyncio.run(codec.encode(ACCOUNT, request)).text

    assert "\0" not in kept
    # As text, where 1, 1.0 and true differ and members have an order.
    assert json.dumps(json.loads(kept)["responseFormat"]) == json.dumps(wanted)
    assert asyncio.run(codec.decode(kept)) == request
