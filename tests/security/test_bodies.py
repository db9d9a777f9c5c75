"""Request bodies that are too large, too slow, too many or nobody's."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.http.admission.checks import SMALL_BODY_BYTES
from tests.media import large_image
from tests.patience import PATIENCE_S
from tests.security.conftest import OpenTarget
from tests.security.server import ASSISTANT, Target

MB = 2**20
JSON = {"Content-Type": "application/json"}
NO_KEY = {"Authorization": ""}
HEALTHY_CPU_S = 1.25
"""What a loaded machine adds to it."""

BRACKETS = b"[" + b"[]," * (20 * MB // 3 - 1) + b"[]]"
"""20 MB that take 18 seconds and a gigabyte to parse."""


def raw_post(path: str, *headers: str) -> bytes:
    """The head of a request."""
    return "\r\n".join([f"POST {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


async def answer_to(target: Target, *parts: bytes) -> tuple[dict[str, Any], str]:
    """The problem document that comes when only these bytes were sent, and the head it came with."""
    reader, writer = await target.connect()
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(PATIENCE_S):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = head.partition("content-length: ")[2].partition("\r\n")[0]
            body = await reader.readexactly(int(length))
    finally:
        writer.close()
    return json.loads(body), head


@pytest.mark.parametrize("length", ["Content-Length: 20000000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize(
    "path", ["/v1/runs", "/v1/runs/stream", "/v1/generate/text", "/v1/webhooks", "/v1/ag-ui/x"]
)
async def test_without_a_key_no_body_is_read(target: Target, path: str, length: str) -> None:
    problem, head = await answer_to(target, raw_post(path, "Content-Type: application/json", length))

    assert (problem["status"], problem["code"]) == (401, "unauthenticated")
    assert "x-content-type-options: nosniff" in head
    assert "cache-control: no-store" in head


async def test_what_follows_a_skipped_body_is_a_request_of_its_own(target: Target) -> None:
    reader, writer = await target.connect()
    hidden = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    head = raw_post("/v1/runs", "Content-Type: application/json", f"Content-Length: {len(hidden)}")
    writer.write(head + hidden + b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    async with asyncio.timeout(PATIENCE_S):
        answered = await reader.read()

    writer.close()
    assert re.findall(rb"HTTP/1.1 (\d+)", answered) == [b"401", b"404"]


async def test_headers_are_checked_in_order(target: Target) -> None:
    reader = await target.new_key("reading", ["runs:read"])
    writer = await target.new_key("writing", ["runs:read", "runs:write"])
    half = b'{"half'

    def post(path: str, key: str, *headers: str) -> bytes:
        return raw_post(path, f"Authorization: Bearer {key}", *headers) + half

    unscoped, _ = await answer_to(target, post("/v1/runs", reader, "Content-Length: 999999999"))
    untyped, _ = await answer_to(target, post("/v1/runs", writer, "Content-Length: 999999999"))
    typed = "Content-Type: application/json"
    large, _ = await answer_to(target, post("/v1/runs", writer, typed, "Content-Length: 20971521"))
    small = f"Content-Length: {SMALL_BODY_BYTES + 1}"
    larger, _ = await answer_to(target, post("/v1/webhooks", writer, typed, small))
    unwanted, _ = await answer_to(target, post("/v1/runs/x/cancel", writer, "Content-Length: 99999"))
    nowhere, _ = await answer_to(target, post("/v1/nowhere", writer, "Content-Length: 99999"))

    codes = [each["code"] for each in (unscoped, untyped, large, larger, unwanted, nowhere)]
    assert codes == ["forbidden", "unsupported_media_type", *["payload_too_large"] * 3, "not_found"]


async def test_nested_json_without_a_key_is_not_parsed(target: Target) -> None:
    async with target.client() as http, target.watched() as watched:
        answers = await asyncio.gather(*(_posted(http, BRACKETS, **NO_KEY) for _ in range(4)))

    assert [each.status_code for each in answers] == [401] * 4
    assert watched.worst_cpu_s < HEALTHY_CPU_S
    assert watched.grown_bytes < 50 * MB


async def test_deeply_nested_json_is_rejected_before_parsing(target: Target) -> None:
    key = await target.new_key("brackets")
    async with target.client(key) as http, target.watched() as watched:
        answers = await asyncio.gather(*(_posted(http, BRACKETS) for _ in range(3)))

    assert [each.status_code for each in answers] == [422] * 3
    assert watched.worst_cpu_s < HEALTHY_CPU_S
    assert watched.grown_bytes < 100 * MB


async def test_large_images_are_accepted_concurrently(target: Target) -> None:
    key = await target.new_key("images")
    body = _with_an_image(13 * MB)
    async with target.client(key) as http, target.watched() as watched:
        answers = await asyncio.gather(*(_posted(http, body, path="/v1/runs/preview") for _ in range(3)))

    assert [each.status_code for each in answers] == [200] * 3, answers[0].text[:500]
    assert watched.worst_cpu_s < HEALTHY_CPU_S


async def test_the_body_bytes_of_an_account_are_limited(open_target_here: OpenTarget, model_url: str) -> None:
    settings = {
        "RUNTALLY_MAX_BODY_BYTES": str(MB),
        "RUNTALLY_MAX_BODIES_BYTES_PER_ACCOUNT": str(2 * MB),
        "RUNTALLY_MAX_BODIES_BYTES": str(3 * MB),
    }
    async with open_target_here(model_url, **settings) as target:
        greedy, other, third = [await target.new_key(name) for name in ("greedy", "other", "third")]
        held: list[asyncio.StreamWriter] = []
        async with target.client(greedy) as http, asyncio.timeout(PATIENCE_S):
            over = None
            while over is None or over.status_code != 429:
                # Refused itself where the one before it still counts.
                held.append(await _half_sent(target, greedy, MB))
                over = await _posted(http, _with_an_image(MB // 2), path="/v1/runs/preview")
        async with target.client(other) as http:
            beside = await _posted(http, _with_an_image(MB // 2), path="/v1/runs/preview")
        async with target.client(third) as http, asyncio.timeout(PATIENCE_S):
            full = beside
            while full.status_code != 503:
                held.append(await _half_sent(target, other, MB))
                full = await _posted(http, _with_an_image(MB // 2), path="/v1/runs/preview")
        for writer in held:
            writer.close()
        async with target.client(greedy) as http:
            again = await _until(http, 200)

    assert (over.json()["code"], int(over.headers["retry-after"]) > 0) == ("too_many_bodies", True)
    assert beside.status_code == 200
    assert (full.json()["code"], int(full.headers["retry-after"]) > 0) == ("bodies_full", True)
    assert again.status_code == 200


async def test_a_slow_body_times_out(open_target_here: OpenTarget, model_url: str) -> None:
    async with open_target_here(model_url, RUNTALLY_BODY_TIMEOUT_S="1") as target:
        key = await target.new_key("slow")
        head = raw_post(
            "/v1/runs",
            f"Authorization: Bearer {key}",
            "Content-Type: application/json",
            "Transfer-Encoding: chunked",
        )
        nothing, _ = await answer_to(target, head)
        little, _ = await answer_to(target, head, b'2\r\n{"\r\n')

    assert (nothing["status"], nothing["code"]) == (408, "request_timeout")
    assert little["code"] == "request_timeout"


async def test_a_client_that_disconnects_during_its_body_starts_nothing(target: Target) -> None:
    key = await target.new_key("leaving")
    writer = await _half_sent(target, key, MB)
    writer.close()

    async with target.client(key) as http:
        response = await _until(http, 200)
        runs = (await http.get("/v1/runs")).json()["items"]

    assert (response.status_code, runs) == (200, [])


async def _posted(http: httpx.AsyncClient, body: bytes, *, path: str = "/v1/runs", **headers: str) -> Any:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(body), 65_536):
            yield body[start : start + 65_536]

    sized = {"Content-Length": str(len(body))}
    return await http.post(path, content=pieces(), headers={**JSON, **sized, **headers})


async def _until(http: httpx.AsyncClient, status: int) -> httpx.Response:
    """Post half a megabyte until it is answered so."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            response: httpx.Response = await _posted(http, _with_an_image(MB // 2), path="/v1/runs/preview")
            if response.status_code == status:
                return response


async def _half_sent(target: Target, key: str, size: int) -> asyncio.StreamWriter:
    _, writer = await target.connect()
    headers = [f"Authorization: Bearer {key}", "Content-Type: application/json", f"Content-Length: {size}"]
    # All but the last byte: the more has come, the longer the rest is waited for.
    writer.write(raw_post("/v1/runs", *headers) + b"{" + b" " * (size - 2))
    await writer.drain()
    return writer


def _with_an_image(size: int) -> bytes:
    data = large_image(size * 3 // 4)
    content = [{"type": "text", "text": "?"}, {"type": "image", "mediaType": "image/png", "data": data}]
    return json.dumps({"graphId": ASSISTANT, "messages": [{"role": "user", "content": content}]}).encode()
