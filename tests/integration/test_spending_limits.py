"""No limit is passed by more than one message, whatever runs at once, in however many processes."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from app.auth.records import KeyRecord
from app.billing.budgets.service import Budgets
from app.billing.credit.ledger import CreditLedger
from app.billing.credit.repository import lock_balance
from app.billing.prices.price_list import CREDITS_PER_DOLLAR
from app.billing.reports.service import BillingReports
from app.gateway.call import CallCost, Refusal
from app.gateway.channel import Channel
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.simulator import wire
from app.simulator.script import ApiRequest, Reply, Text
from app.simulator.server import Simulator
from tests.e2e.stories import until
from tests.factories import a_budget, a_plan, an_account, an_open_database
from tests.integration.billed_gateway import MODEL, BilledGateway, a_billed_gateway
from tests.integration.statements import until as until_done
from tests.patience import PATIENCE_S

LONGEST = 1_000
TEXT = "words in a prompt that is marked for the cache " * 40
REQUEST: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": LONGEST,
    "messages": [
        {"role": "user", "content": [{"type": "text", "text": TEXT, "cache_control": {"type": "ephemeral"}}]}
    ],
}
PROMPT = wire.count_tokens(REQUEST)
MESSAGE_USD = (PROMPT * Decimal("3.75") + LONGEST * 15) / 1_000_000 * Decimal("1.1")
"""What each message costs: as long as it may be, written to the cache, in the dearest region."""

MESSAGE = math.ceil(MESSAGE_USD * CREDITS_PER_DOLLAR)
"""In credits."""


@dataclass(slots=True)
class Dear:
    """Answers of the greatest length, whose whole prompt was written to the cache; each takes a moment."""

    most_at_once: int = 0
    _now: int = 0

    async def __call__(self, request: ApiRequest) -> Reply:
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        # Long enough for calls that are admitted at once to arrive.
        for _ in range(50):
            await asyncio.sleep(0.001)
        self._now -= 1
        return as_dear_as_it_may_be(request)


def as_dear_as_it_may_be(request: ApiRequest) -> Reply:
    """An answer of the greatest length, whose whole prompt was written to the cache."""
    prompt = {"input_tokens": 0, "cache_creation_input_tokens": wire.count_tokens(request.body)}
    return Reply(
        [Text("one two three")],
        usage={**prompt, "output_tokens": 1, "inference_geo": "us"},
        final_usage={"output_tokens": request.body["max_tokens"]},
    )


@asynccontextmanager
async def a_process(
    url: str, provider_url: str, directory: Path, *, delivers: bool = True, held_wait_s: float = 0.1
) -> AsyncIterator[BilledGateway]:
    async with (
        an_open_database(url) as database,
        a_billed_gateway(
            database, provider_url, directory, delivers=delivers, held_wait_s=held_wait_s
        ) as process,
    ):
        yield process


async def work(process: BilledGateway, channel: Channel, *, agents: int) -> None:
    """Agents of one run at once, each of which calls until it is refused."""

    async def one() -> None:
        while await process.call(channel, REQUEST) == 200:
            pass

    async with asyncio.timeout(PATIENCE_S):
        await asyncio.gather(*(one() for _ in range(agents)))
        await process.gateway.close_channel(channel)
    assert all(message.complete for message in channel.messages.values())


async def limit_credit(
    database: Database, ledger: CreditLedger, key: KeyRecord, terms: str, limit: int
) -> None:
    if terms == "prepaid":
        await ledger.change_mode(key.account_id, "prepaid")
        await ledger.grant(key.account_id, limit)
    else:
        await Budgets(database).set_budget(key.account_id, a_budget(credits=limit))


@pytest.mark.parametrize("terms", ["prepaid", "budget"])
async def test_credit_is_passed_by_one_message_at_most_in_two_processes(
    database: Database, database_url: str, tmp_path: Path, terms: str
) -> None:
    limit = 7 * MESSAGE - 1
    key, ledger = await an_account(database), CreditLedger(database)
    await limit_credit(database, ledger, key, terms, limit)
    async with (
        Simulator(as_dear_as_it_may_be) as provider,
        a_process(database_url, provider.url, tmp_path) as one,
        a_process(database_url, provider.url, tmp_path) as other,
    ):
        runs = {f"run-{number}": process for number, process in enumerate((one, other, one, other))}
        await asyncio.gather(
            *(work(process, process.channel(key, name), agents=3) for name, process in runs.items())
        )
        for name, process in runs.items():
            await process.metering.receipts.flush(RunKey(key.account_id, RunId(name)), within_s=PATIENCE_S)
        spent = (await ledger.balance(key.account_id)).spent

    assert spent == len(provider.sent) * MESSAGE
    assert limit - MESSAGE <= spent <= limit + MESSAGE


@pytest.mark.parametrize("terms", ["prepaid", "budget"])
async def test_a_call_waits_for_what_is_held_for_a_call_of_another_run(
    database: Database, database_url: str, tmp_path: Path, terms: str
) -> None:
    """Credit for one message of the greatest length, and for many of those that come."""
    key, ledger = await an_account(database), CreditLedger(database)
    await limit_credit(database, ledger, key, terms, MESSAGE + 10)
    begun, answers = asyncio.Event(), asyncio.Event()

    async def answer(_request: ApiRequest) -> Reply:
        begun.set()
        await answers.wait()
        return Reply([Text("one")])

    async with (
        Simulator(answer) as provider,
        a_process(database_url, provider.url, tmp_path, held_wait_s=0) as impatient,
        a_process(database_url, provider.url, tmp_path, held_wait_s=PATIENCE_S) as process,
    ):
        first = process.channel(key, "run-1")
        one = asyncio.create_task(process.call(first, REQUEST))
        await begun.wait()
        refused = await impatient.call(impatient.channel(key, "run-2"), REQUEST)
        two = asyncio.create_task(process.call(process.channel(key, "run-3"), REQUEST))
        answers.set()
        statuses = [await one, refused]
        await until_done(first.release_credit)
        statuses.append(await two)

    assert statuses == [200, 402, 200]


async def test_what_one_process_has_not_delivered_cannot_be_spent_by_another(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    key, ledger = await an_account(database), CreditLedger(database)
    await limit_credit(database, ledger, key, "prepaid", 4 * MESSAGE)
    async with (
        Simulator(as_dear_as_it_may_be) as provider,
        a_process(database_url, provider.url, tmp_path, delivers=False) as silent,
        a_process(database_url, provider.url, tmp_path) as other,
    ):
        first = silent.channel(key, "run-1")
        assert [await silent.call(first, REQUEST) for _ in range(3)] == [200] * 3
        await work(other, other.channel(key, "run-2"), agents=2)

    assert len(provider.sent) * MESSAGE <= 5 * MESSAGE


@pytest.mark.parametrize("limit", ["tokens", "dollars"])
async def test_the_limits_of_a_run_are_passed_by_one_message_at_most(
    database: Database, database_url: str, tmp_path: Path, limit: str
) -> None:
    tokens = PROMPT + LONGEST
    limits = (
        {"max_total_tokens": 5 * tokens - 1}
        if limit == "tokens"
        else {"max_budget_usd": 5 * MESSAGE_USD - Decimal("0.0001")}
    )
    key = await an_account(database)
    async with (
        Simulator(dear := Dear()) as provider,
        a_process(database_url, provider.url, tmp_path) as process,
    ):
        channel = process.channel(key, "run-1", **limits)
        await work(process, channel, agents=8)

    # The fifth reaches the limit.
    assert len(provider.sent) == 5
    # The provider counted their prompts, so several could be on their way at once.
    assert dear.most_at_once > 1


def of_an_unknown_region(_request: ApiRequest) -> Reply:
    return Reply(
        [Text("one")],
        usage={"input_tokens": 1_000, "output_tokens": 1, "inference_geo": "eu"},
        final_usage={"output_tokens": 1_000},
    )


@pytest.mark.parametrize("terms", ["prepaid", "budget"])
async def test_messages_without_a_price_do_not_open_an_account(
    database: Database, database_url: str, tmp_path: Path, terms: str
) -> None:
    key, ledger, reports = await an_account(database), CreditLedger(database), BillingReports(database)
    await limit_credit(database, ledger, key, terms, 3 * MESSAGE)
    answered = 0

    async with (
        Simulator(of_an_unknown_region) as provider,
        a_process(database_url, provider.url, tmp_path) as process,
    ):
        metering = replace(process.metering, find_unpriced=reports.unpriced_of_month)
        for number in range(5):
            channel = replace(process, metering=metering).channel(key, f"run-{number}")
            answered += await process.call(channel, REQUEST) == 200
            await process.gateway.close_channel(channel)
            run = RunKey(key.account_id, RunId(f"run-{number}"))
            await metering.receipts.flush(run, within_s=PATIENCE_S)
            async with database.transaction() as tx:
                await ledger.release(tx, run)

    # Nothing is charged, and yet the account has nothing left.
    assert 2 <= answered <= 4
    assert (await ledger.balance(key.account_id)).spent == 0


async def test_calls_of_an_account_wait_for_each_other_without_connections(
    database_url: str, database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    """Otherwise they would use up the pool, give up together, and break the connections they hold."""
    cost = CallCost(Decimal("0.01"), Decimal("0.01"))
    async with (
        Simulator(as_dear_as_it_may_be) as provider,
        a_process(database_url, provider.url, tmp_path) as process,
    ):
        await limit_credit(database, process.metering.ledger, key, "prepaid", 100 * CREDITS_PER_DOLLAR)

        async def check(number: int) -> Refusal | None:
            plan = a_plan(run=RunKey(key.account_id, RunId(f"run-{number}")), model=MODEL)
            return await process.metering.hooks_for(plan, executor_type="claude_sdk").check_credit(cost)

        async with database.transaction() as tx:
            await lock_balance(tx, key.account_id)
            checks = asyncio.gather(*(check(number) for number in range(40)))
            await until(lambda: process.database.use.in_use > 0)
            in_use = set()
            for _ in range(50):
                await database.ping()
                in_use.add(process.database.use.in_use)
        refusals = await checks

    assert max(in_use) == 1
    assert refusals == [None] * 40
