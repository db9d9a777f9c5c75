"""Providers that answer without end, and prompts that are given up: what can be paid is paid, and no more."""

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

from app.gateway.answer import MAX_JSON_BYTES, READ_BYTES
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.platform.server import loopback
from app.simulator import wire
from app.simulator.script import Hold, Reply, Text, in_turn
from tests.e2e.stories import ANALYST, WorldOf, a_request, until
from tests.factories import an_account
from tests.integration.billed_gateway import MODEL, a_billed_gateway
from tests.integration.gateway_seam import MESSAGE_REQUEST
from tests.patience import PATIENCE_S

MB = 1024 * 1024


@dataclass(slots=True)
class Flood:
    """A provider that answers without end."""

    kind: bytes
    status: int = 200
    sent: int = 0

    async def __call__(self, scope: loopback.Scope, receive: loopback.Receive, send: loopback.Send) -> None:
        await loopback.read_body(receive)
        if scope["path"].endswith("count_tokens"):
            self.kind, self.status = b"application/json", 200
        await send(
            {"type": "http.response.start", "status": self.status, "headers": [(b"content-type", self.kind)]}
        )
        usage = {"input_tokens": 10, "output_tokens": 1}
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": MODEL, "content": []}
        block, text = {"type": "text", "text": ""}, {"type": "text_delta", "text": "x" * 60_000}
        piece = wire.sse({"type": "message_start", "message": {**message, "usage": usage}})
        piece += wire.sse({"type": "content_block_start", "index": 0, "content_block": block})
        delta = wire.sse({"type": "content_block_delta", "index": 0, "delta": text})
        if self.kind == b"application/json":
            whole = json.dumps({**message, "content": [block]}).encode()
            piece, delta = whole.removesuffix(b'"}]}'), b"x" * 60_000
        leaving = asyncio.create_task(loopback.wait_for_disconnect(receive))
        while self.sent < 400 * MB and not leaving.done():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            self.sent += len(piece)
            piece = delta
            await asyncio.sleep(0)
        leaving.cancel()


@pytest.mark.parametrize(
    ("kind", "status", "most", "charged"),
    [
        (b"text/event-stream", 200, READ_BYTES, ["msg_1"]),
        (b"application/json", 200, MAX_JSON_BYTES, ["msg_1"]),
        (b"application/json", 500, MB, []),
    ],
    ids=["streamed", "whole", "error"],
)
async def test_an_answer_of_hundreds_of_megabytes_is_given_up(
    database: Database, tmp_path: Path, kind: bytes, status: int, most: int, charged: list[str]
) -> None:
    flood, key = Flood(kind, status), await an_account(database)
    async with loopback.serve_on_loopback(flood) as url, a_billed_gateway(database, url, tmp_path) as billed:
        channel = billed.channel(key, "run-1")
        before = psutil.Process().memory_info().rss
        with suppress(httpx.RemoteProtocolError):
            async with billed.agent.stream(
                "POST", f"{channel.url}/v1/messages", json={"model": MODEL, "max_tokens": 5, "messages": []}
            ) as response:
                async for _ in response.aiter_raw():
                    pass
        grown = psutil.Process().memory_info().rss - before
        again = await billed.call(channel, MESSAGE_REQUEST)
        await billed.gateway.close_channel(channel)
        receipts = await billed.charged(RunKey(key.account_id, RunId("run-1")))

    assert most <= flood.sent < most + 8 * MB
    assert grown < 128 * MB
    assert (again, channel.refused) == (402, "answer")
    assert [receipt.usage_unit_id for receipt in receipts] == charged
    assert {receipt.basis for receipt in receipts} <= {"partial"}


async def test_a_run_cancelled_before_the_first_byte_pays_for_its_prompt(world_of: WorldOf) -> None:
    hold = Hold(index=0)
    world = await world_of(lambda _: Reply([Text("never")], hold=hold))
    run_id = await world.start(a_request("word " * 20_000))
    await hold.reached.wait()

    await world.http.post(f"/v1/runs/{run_id}/cancel")

    assert (await world.ended(run_id))["final"]["finishReason"] == "aborted"
    await until(lambda: world.simulator.sent[0].disconnected)
    receipts = await world.receipts(run_id)
    assert len(receipts) == len(world.simulator.requests)
    for receipt in receipts:
        assert (receipt["usageUnitId"][:11], receipt["basis"], receipt["origin"]) == (
            "unanswered-",
            "partial",
            "hidden",
        )
        assert receipt["inputTokens"] > 20_000
        assert receipt["note"]
    billing = (await world.http.get(f"/v1/runs/{run_id}")).json()["billing"]
    assert (billing["meters"]["gateway"], billing["drift"]) == (len(receipts), 0)


@pytest.mark.long
async def test_a_run_whose_provider_answers_without_end_ends_in_order(world_of: WorldOf) -> None:
    flood = Flood(b"text/event-stream")
    async with loopback.serve_on_loopback(flood) as url:
        world = await world_of(in_turn(), ANTHROPIC_BASE_URL=url)
        before, most = psutil.Process().memory_info().rss, 0
        # With the longest time limit: it is a lot of work.
        run_id = await world.start(a_request(graphId=ANALYST))
        async with asyncio.timeout(3 * PATIENCE_S):
            while (run := (await world.http.get(f"/v1/runs/{run_id}")).json())["final"] is None:
                most = max(most, psutil.Process().memory_info().rss - before)
                await asyncio.sleep(0.05)

    assert run["final"]["error"] == "provider_unavailable"
    (receipt,) = await world.receipts(run_id)
    assert (receipt["usageUnitId"], receipt["basis"]) == ("msg_1", "partial")
    # Nobody is charged for more than was requested.
    assert receipt["outputTokens"] == 32_000
    assert most < 512 * MB
