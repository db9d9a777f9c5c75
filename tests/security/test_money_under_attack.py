"""Whoever tries to spend what there is not, or to be given what is not paid."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from app.billing.budgets.records import Amount
from app.billing.credit.ledger import CreditLedger
from app.billing.credit.repository import lock_balance
from app.billing.prices.price_list import CREDITS_PER_DOLLAR, PriceList
from app.billing.receipts.delivery import ReceiptDelivery
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.records import Receipt
from app.billing.reports.service import BillingReports
from app.executors.metering import BilledMetering, channel_limits
from app.gateway.answer import MAX_JSON_BYTES, READ_BYTES
from app.gateway.channel import Channel
from app.gateway.proxy import Gateway
from app.gateway.upstream import Upstream
from app.ids import AccountId, ApiKeyId, RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.server.loopback import (
    Receive,
    Scope,
    Send,
    read_body,
    serve_on_loopback,
    wait_for_disconnect,
)
from app.simulator import wire
from app.simulator.script import ApiRequest, Hold, HttpError, Reply, Responder, Text, in_turn
from app.simulator.server import Simulator
from app.usage.records import Attribution
from tests.e2e.stories import ANALYST, WorldOf, a_request, until
from tests.factories import a_plan, an_account
from tests.patience import PATIENCE_S

MODEL = "claude-sonnet-4-5"
DEAR_PROMPT = "word " * 60_000
"""A dollar and more, with the longest answer and written to the cache."""
MB = 1024 * 1024
LEDGER_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Shop:
    """A gateway, its billing over a real database, and agents that call it."""

    database: Database
    receipts: ReceiptQueue
    ledger: CreditLedger
    billing: BilledMetering
    gateway: Gateway
    agent: httpx.AsyncClient

    async def account(self, name: str, dollars: int | None = None) -> "Account":
        """A new account, prepaid if it is given something."""
        key = await an_account(self.database, name)
        if dollars is not None:
            await self.ledger.change_mode(key.account_id, "prepaid")
            await self.ledger.grant(key.account_id, dollars * CREDITS_PER_DOLLAR)
        return Account(self, key.account_id, key.id)


@dataclass(frozen=True, slots=True)
class Account:
    """One account and its runs."""

    shop: Shop
    id: AccountId
    key: ApiKeyId

    def channel(self, run_id: str, *, reserved: Amount | None = None) -> Channel:
        """The lane of a run that is under way; `reserved` when it was accepted."""
        attribution = Attribution(self.key, "claude_agents:assistant", None)
        run = RunKey(self.id, RunId(run_id))
        minute = timedelta(minutes=1)
        plan = a_plan(run=run, model=MODEL, attribution=attribution, reserved=reserved, timeout=minute)
        hooks = self.shop.billing.hooks_for(plan, executor_type="claude_sdk")
        return self.shop.gateway.open_channel(run_id, channel_limits(plan), hooks)

    async def ends(self, channel: Channel) -> list[Receipt]:
        """The end of a run, as the relay does it: its receipts."""
        run = RunKey(self.id, RunId(channel.run_id))
        await self.shop.gateway.close_channel(channel)
        await self.shop.receipts.flush(run, within_s=PATIENCE_S)
        async with self.shop.database.transaction() as tx:
            await self.shop.ledger.release(tx, run)
        return await BillingReports(self.shop.database).of_run(run)

    async def balance(self) -> Decimal:
        """In dollars; with nothing set aside."""
        credit = await self.shop.ledger.balance(self.id)
        assert credit.reserved == 0
        return Decimal(credit.balance) / CREDITS_PER_DOLLAR


async def send_message(shop: Shop, channel: Channel, prompt: str = "hello", **fields: Any) -> httpx.Response:
    """What an agent asks its model."""
    messages = [{"role": "user", "content": prompt}]
    request_body = {"model": MODEL, "max_tokens": 32_000, "stream": True, "messages": messages, **fields}
    return await shop.agent.post(f"{channel.url}/v1/messages", json=request_body)


@asynccontextmanager
async def a_shop(database_url: str, directory: Path, provider_url: str) -> AsyncIterator[Shop]:
    journal = Journal(directory / "journal", new_uuid())
    database = await Database.open(database_url)
    prices = PriceList()
    receipts, ledger = ReceiptQueue(journal, prices), CreditLedger(database)
    delivery = ReceiptDelivery(database, receipts)
    billing = BilledMetering(receipts, ledger, prices, ledger_wait_s=LEDGER_WAIT_S)
    working = asyncio.create_task(delivery.work())
    try:
        async with (
            Upstream(base_url=provider_url, api_key="sk-provider") as provider,
            Gateway(provider) as gateway,
            httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as agent,
        ):
            yield Shop(database, receipts, ledger, billing, gateway, agent)
    finally:
        working.cancel()
        await asyncio.wait({working})
        await delivery.aclose()
        journal.close()
        await database.aclose()


@asynccontextmanager
async def a_shop_with(
    responder: Responder, database_url: str, directory: Path
) -> AsyncIterator[tuple[Shop, Simulator]]:
    async with (
        Simulator(responder) as simulator,
        a_shop(database_url, directory, simulator.url) as shop,
    ):
        yield shop, simulator


def dear(request: ApiRequest) -> Reply:
    """As dear an answer as the call allows: all of the prompt is written to the cache."""
    tokens = len(json.dumps(request.body)) // 2
    usage = {"input_tokens": 0, "cache_creation_input_tokens": tokens, "output_tokens": 1}
    return Reply([Text("ok")], usage=usage, final_usage={"output_tokens": 32_000}, delta_delay_s=0.05)


async def test_twelve_dear_prompts_at_once_overdraw_five_dollars_by_one_message_at_most(
    database_url: str, tmp_path: Path
) -> None:
    async with a_shop_with(dear, database_url, tmp_path) as (shop, simulator):
        account = await shop.account("acme", dollars=5)
        statuses: list[int] = []
        for wave in range(3):
            channels = [account.channel(f"run-{wave}-{number}") for number in range(12)]
            cached = {"system": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]}
            answers = await asyncio.gather(
                *(send_message(shop, channel, DEAR_PROMPT, **cached) for channel in channels)
            )
            await asyncio.gather(*(account.ends(channel) for channel in channels))
            statuses += [answer.status_code for answer in answers]

        assert set(statuses) == {200, 402}
        assert len(simulator.requests) == statuses.count(200) >= 3
        # The last one was let through for its prompt; its longest answer costs half a dollar.
        assert -1 < await account.balance() < 1


async def test_a_call_that_is_not_covered_is_refused_before_its_prompt_is_sent(
    database_url: str, tmp_path: Path
) -> None:
    async with a_shop_with(dear, database_url, tmp_path) as (shop, simulator):
        account = await shop.account("acme", dollars=1)
        channel = account.channel("run-1")

        refused = await send_message(shop, channel, DEAR_PROMPT * 5)
        allowed = await send_message(shop, channel, "hello")

        assert (refused.status_code, refused.headers["x-should-retry"]) == (402, "false")
        assert (allowed.status_code, len(simulator.requests), channel.refused) == (200, 1, "credit")
        await account.ends(channel)


async def test_while_the_ledger_does_not_answer_a_first_call_has_what_was_set_aside_for_its_run(
    database_url: str, tmp_path: Path
) -> None:
    async with a_shop_with(dear, database_url, tmp_path) as (shop, simulator):
        account = await shop.account("acme", dollars=1)
        amount = Amount(CREDITS_PER_DOLLAR * 9 // 10, tokens=1_000_000)
        channels = [account.channel(f"run-{number}", reserved=amount) for number in range(2)]
        async with shop.database.transaction() as tx:
            # As many requests of the account at once do: whoever comes waits.
            await lock_balance(tx, account.id)
            refused, allowed = await asyncio.gather(
                send_message(shop, channels[0], DEAR_PROMPT), send_message(shop, channels[1])
            )
        assert (refused.status_code, allowed.status_code, len(simulator.requests)) == (402, 200, 1)
        await asyncio.gather(*(account.ends(channel) for channel in channels))


async def test_prompts_given_up_before_their_first_byte_are_paid_for(
    database_url: str, tmp_path: Path
) -> None:
    holds = [Hold(index=0) for _ in range(3)]
    answers = in_turn(*(Reply([Text("never")], hold=hold) for hold in holds))
    async with a_shop_with(answers, database_url, tmp_path) as (shop, _):
        account = await shop.account("acme", dollars=5)
        channel = account.channel("run-1")
        for hold in holds:
            pending = asyncio.create_task(send_message(shop, channel, "one two three"))
            await hold.reached.wait()
            pending.cancel()
            await asyncio.wait({pending})
        receipts = await account.ends(channel)

        assert [receipt.usage_unit_id for receipt in receipts] == [f"unanswered-{n}" for n in (1, 2, 3)]
        for receipt in receipts:
            # The scripted provider counts a token a word, and a few for the message.
            assert (receipt.input_tokens, receipt.output_tokens) == (10, 0)
            assert (receipt.basis, receipt.output_estimated, receipt.model) == ("partial", True, MODEL)
            assert receipt.charged_credits == 300
            assert "never answered" in (receipt.note or "")
        assert await account.balance() == 5 - Decimal("0.00009")


async def test_what_a_provider_refuses_costs_nothing(database_url: str, tmp_path: Path) -> None:
    async with (
        a_shop_with(
            in_turn(
                HttpError(529), HttpError(400), HttpError(500), Reply([], error_after=(0, "overloaded_error"))
            ),
            database_url,
            tmp_path,
        ) as (shop, _),
    ):
        account = await shop.account("acme", dollars=5)
        channel = account.channel("run-1")
        for _ in range(4):
            await send_message(shop, channel)

        assert await account.ends(channel) == []
        assert await account.balance() == 5


async def test_ids_a_provider_repeats_are_charged_each_time(database_url: str, tmp_path: Path) -> None:
    """In one run, in the other's of the same name, and with ids no database takes."""
    strange = ["msg_same", "msg_same", "msg_same", "a b", "a b"]

    def repeats(_: ApiRequest) -> Reply:
        return Reply([Text("ok")], message_id=strange[len(simulator.requests) % len(strange) - 1])

    async with a_shop_with(repeats, database_url, tmp_path) as (shop, simulator):
        for name in ("acme", "globex"):
            account = await shop.account(name)
            channel = account.channel("run-1")
            for _ in strange:
                await send_message(shop, channel)
            receipts = await account.ends(channel)

            ids = [receipt.usage_unit_id for receipt in receipts]
            assert ids[:3] == ["msg_same", "msg_same~2", "msg_same~3"]
            assert ids[4] == f"{ids[3]}~2"
            assert [receipt.note is None for receipt in receipts] == [True, False, False, True, False]
            assert {(receipt.basis, receipt.output_tokens) for receipt in receipts} == {("final", 20)}


@dataclass(slots=True)
class Flood:
    """A provider that answers without end."""

    kind: bytes
    status: int = 200
    sent: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
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
        leaving = asyncio.create_task(wait_for_disconnect(receive))
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
    database_url: str, tmp_path: Path, kind: bytes, status: int, most: int, charged: list[str]
) -> None:
    flood = Flood(kind, status)
    async with serve_on_loopback(flood) as url, a_shop(database_url, tmp_path, url) as shop:
        account = await shop.account("acme")
        channel = account.channel("run-1")
        before = psutil.Process().memory_info().rss
        with suppress(httpx.RemoteProtocolError):
            async with shop.agent.stream(
                "POST", f"{channel.url}/v1/messages", json={"model": MODEL, "max_tokens": 5, "messages": []}
            ) as response:
                async for _ in response.aiter_raw():
                    pass
        grown = psutil.Process().memory_info().rss - before
        again = await send_message(shop, channel)
        receipts = await account.ends(channel)

    assert most <= flood.sent < most + 8 * MB
    assert grown < 128 * MB
    assert (again.status_code, channel.refused) == (402, "answer")
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


async def test_a_run_whose_provider_answers_without_end_ends_in_order(world_of: WorldOf) -> None:
    flood = Flood(b"text/event-stream")
    async with serve_on_loopback(flood) as url:
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
