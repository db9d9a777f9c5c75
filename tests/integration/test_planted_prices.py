"""Planted: something without a known price, and a wrong price. The bill is right afterwards."""

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import structlog

from app.billing.credit.ledger import CreditLedger
from app.billing.prices.model_price import ModelPrice, OperatorPrice, Rate
from app.billing.prices.price_file import read_prices
from app.billing.prices.price_list import PriceList
from app.billing.receipts.records import Receipt
from app.billing.receipts.repricing import correct, reprice
from app.cli.commands.credits import reprice as reprice_receipts
from app.errors import Invalid
from app.platform.db import Database
from app.simulator.script import Reply, Text
from tests.factories import an_account
from tests.integration.bookkeeping import SONNET, bookkeeping
from tests.integration.dollars import WAYS, Way
from tests.integration.priced_wire import Asked, a_priced_wire, total_of
from tests.provider.usage_objects import TokenCounts, UsageObject

COUNTS = TokenCounts(input=1_000, output=1_000)
PAST = datetime(2026, 1, 1, tzinfo=UTC)

MENDED = """
factors:
  - inference_geo: {mars: "3"}
    service_tier: {flex: "0.25"}
    speed: {turbo: "4"}
    server_tools: {code_execution_requests: "0.05", new_counter: "0.002"}
"""


def price_list(directory: Path, text: str) -> PriceList:
    file = directory / "prices.yaml"
    file.write_text(text)
    data = read_prices(file)
    return PriceList(data.prices, operator_factors=data.factors)


def asking(usage: UsageObject, way: Way = "streamed") -> Asked:
    blocks = [Text("one two three four")]
    if way == "cut":
        reply = Reply(blocks, usage={**usage.to_json(), "output_tokens": 1}, cut_after=5)
    else:
        reply = Reply(blocks, usage=usage.started(), final_usage=usage.ended())
    return Asked(reply, SONNET, streamed=way != "whole")


PLANTED: dict[str, tuple[dict[str, Any], str, str]] = {
    # What is reported; what the rest costs at first, and the whole with MENDED, of a complete message.
    "inference_geo=mars": ({"inference_geo": "mars"}, "0", "0.054"),
    "service_tier=flex": ({"service_tier": "flex"}, "0", "0.0045"),
    "speed=turbo": ({"speed": "turbo"}, "0", "0.072"),
    "code_execution_requests=2": ({"server_tools": {"code_execution_requests": 2}}, "0.018", "0.118"),
    "new_counter=12": ({"others": {"new_counter": 12}}, "0.018", "0.042"),
}


@pytest.mark.parametrize("way", WAYS)
async def test_an_unknown_part_is_found_and_charged_once_it_has_a_price(
    database: Database, tmp_path: Path, way: Way
) -> None:
    # 998 of 1,000 tokens of output less.
    cut = Decimal("0.01497") if way == "cut" else Decimal(0)
    asked = [asking(UsageObject(COUNTS, **fields), way) for fields, _, _ in PLANTED.values()]
    async with a_priced_wire(database, tmp_path, PriceList()) as wire:
        with structlog.testing.capture_logs() as logs:
            receipts = await wire.bill("planted", asked)
        balance_before = await wire.metering.ledger.balance(wire.key.account_id)
        still = await reprice(database, PriceList())
        done = await reprice(database, price_list(tmp_path, MENDED))
        again = await reprice(database, price_list(tmp_path, MENDED))
        by_message = per_message(await wire.receipts("planted"))
        balance = await wire.metering.ledger.balance(wire.key.account_id)

    alarms = [entry["parts"] for entry in logs if entry["event"] == "receipt.unpriced"]
    assert sorted(alarms) == sorted((part,) for part in PLANTED)
    for (part, (_, known, whole)), receipt in zip(PLANTED.items(), receipts, strict=True):
        factor = Decimal(whole) / Decimal("0.018") if Decimal(known) == 0 else 1
        before = Decimal(known) - (cut if Decimal(known) else 0)
        assert (receipt.unpriced, receipt.cost_usd) == ([part], before), part
        assert receipt.basis == "unpriced", part
        assert total_of(by_message[receipt.usage_unit_id]) == Decimal(whole) - cut * factor, part
    assert (still.adjusted, set(still.still_unpriced)) == (0, set(PLANTED))
    assert (done.adjusted, done.still_unpriced, again.adjusted) == (len(PLANTED), (), 0)
    assert balance.spent - balance_before.spent == done.cost_usd * 10_000_000


def per_message(receipts: Any) -> dict[str, list[Receipt]]:
    found: dict[str, list[Receipt]] = {}
    for receipt in receipts:
        found.setdefault(receipt.usage_unit_id, []).append(receipt)
    return found


def a_file(price: str) -> str:
    return f'prices: [{{model: {SONNET}, since: 2026-01-01, input: "{price}", output: "{price}"}}]'


async def test_a_wrong_price_is_corrected_in_both_directions_and_as_often_as_needed(
    database: Database, tmp_path: Path
) -> None:
    asked = [asking(UsageObject(COUNTS)), asking(UsageObject(COUNTS, others={"new_counter": 1}))]
    async with a_priced_wire(database, tmp_path, price_list(tmp_path, a_file("30"))) as wire:
        (wrong, waiting) = await wire.bill("wrong", asked)
        corrected = []
        for price in ("3", "5", "5"):
            prices = price_list(tmp_path, a_file(price))
            planned = await correct(database, prices, used_since=PAST, dry_run=True)
            corrected.append(await correct(database, prices, used_since=PAST))
            assert planned == corrected[-1]
        at_once = await asyncio.gather(
            *(correct(database, price_list(tmp_path, a_file("7")), used_since=PAST) for _ in range(4))
        )
        back = await correct(database, prices, used_since=PAST)
        too_late = await correct(database, PriceList(), used_since=datetime.now(UTC))
        receipts = per_message(await wire.receipts("wrong"))
        balance = await wire.metering.ledger.balance(wire.key.account_id)

    assert wrong.cost_usd == Decimal("0.06")
    assert [each.cost_usd for each in corrected] == [Decimal("-0.054"), Decimal("0.004"), 0]
    assert [each.adjusted for each in corrected] == [1, 1, 0]
    # Whoever is first inserts it.
    assert sum(each.adjusted for each in at_once) == back.adjusted == 1
    assert too_late.adjusted == 0
    charged = receipts[wrong.usage_unit_id]
    assert total_of(charged) == Decimal("0.01")
    assert {each.basis for each in charged} == {"final", "adjustment"}
    assert sum(each.input_tokens for each in charged) == COUNTS.input
    for receipt in charged:
        lines = [Decimal(line["amount_usd"]) for line in receipt.lines]
        assert sum(lines, Decimal(0)) == receipt.cost_usd
    # What waits for a price is charged by the other command.
    assert len(receipts[waiting.usage_unit_id]) == 1
    assert balance.spent == sum(each.charged_credits for found in receipts.values() for each in found)


async def test_the_command_corrects_what_an_operator_has_mended(
    database: Database,
    database_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with a_priced_wire(database, tmp_path, price_list(tmp_path, a_file("30"))) as wire:
        await wire.bill("wrong", [asking(UsageObject(COUNTS))])
        (tmp_path / "prices.yaml").write_text(a_file("3"))
        monkeypatch.setenv("DATABASE_URL", database_url)
        monkeypatch.setenv("RUNTALLY_PRICES_FILE", str(tmp_path / "prices.yaml"))
        since = datetime(2026, 1, 1)  # noqa: DTZ001 - as an operator types it
        await reprice_receipts(since, dry_run=True)
        planned = await wire.receipts("wrong")
        await reprice_receipts(since)
        receipts = await wire.receipts("wrong")
        with pytest.raises(Invalid, match="--used-since"):
            await reprice_receipts(dry_run=True)

    assert capsys.readouterr().out.splitlines() == [
        "1 receipts would be adjusted, -0.0540000000 USD.",
        "1 receipts adjusted, -0.0540000000 USD.",
    ]
    assert (len(planned), total_of(receipts)) == (1, Decimal("0.006"))


DAY = datetime(2026, 11, 20, tzinfo=UTC)
NOON = DAY + timedelta(hours=12)


def priced(input_usd: str) -> PriceList:
    price = ModelPrice(
        version=f"file {input_usd}",
        input=Rate(Decimal(input_usd)),
        output=Rate(Decimal(15)),
        cache_read=Rate(Decimal("0.3")),
        cache_write_5m=Rate(Decimal("3.75")),
        cache_write_1h=Rate(Decimal(6)),
    )
    return PriceList([OperatorPrice(SONNET, DAY, price)])


async def test_after_the_correction_nothing_differs_and_the_bill_is_right(database: Database) -> None:
    key = await an_account(database)
    async with bookkeeping(database, key, prices=priced("1.5")) as books:
        await books.both(NOON)
        assert [each.amount_usd for each in (await books.compared(DAY)).prices] == [Decimal("0.0015")]
        calls = books.simulator.reports.calls

    async with bookkeeping(database, key) as books:
        books.simulator.reports.calls = calls
        # The file is right, and the receipts are not yet.
        (found,) = await books.unexplained(DAY)
        assert (found.cause, found.amount_usd) == ("charged_price", Decimal("0.0015"))
        done = await correct(database, PriceList(), used_since=DAY)
        result = await books.compared(DAY)

    assert (done.adjusted, done.cost_usd) == (1, Decimal("0.0015"))
    assert not result.prices
    assert not result.differences
    assert (await CreditLedger(database).balance(key.account_id)).spent == 75_000
