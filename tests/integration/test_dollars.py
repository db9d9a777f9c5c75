"""Every combination that a price depends on goes over the wire, and the receipt has its exact price."""

import itertools
import math
from dataclasses import replace
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

from app.billing.prices.price_list import PriceList
from app.billing.reports.service import BillingReports, UsageQuery
from app.platform.db import Database
from app.simulator.script import ContentEncoding, Reply
from tests.integration.dollars import ALIAS, FALLBACK, RELEASE, RELEASES, STORED, every_case
from tests.integration.priced_wire import Asked, a_priced_wire, total_of
from tests.provider.usage_objects import TokenCounts, UsageObject

ENCODINGS: list[ContentEncoding | None] = [None, "gzip", "deflate", None, "gzip"]
"""Five, so that each of the three ways is compressed in each form."""


async def test_every_combination_to_the_last_digit(database: Database, tmp_path: Path) -> None:
    cases = every_case()
    # How an answer is compressed is independent of its price: it changes from case to case.
    encodings = itertools.cycle(ENCODINGS)
    asked = [
        Asked(replace(case.reply(), encoding=next(encodings)), ALIAS, streamed=case.way != "whole")
        for case in cases
    ]
    async with a_priced_wire(database, tmp_path, PriceList()) as wire:
        wire.simulator.releases = RELEASES
        receipts = await wire.bill("all", asked)
        balance = await wire.metering.ledger.balance(wire.key.account_id)
        (usage,) = await BillingReports(database).usage(wire.key.account_id, UsageQuery())

    for case, receipt in zip(cases, receipts, strict=True):
        exact = case.dollars()
        assert receipt.cost_usd == exact.quantize(STORED, ROUND_HALF_UP), case
        assert receipt.charged_credits == math.ceil(exact * 10_000_000), case
        assert sum((Decimal(line["amount_usd"]) for line in receipt.lines), Decimal(0)) == exact, case
        assert receipt.basis == ("partial" if case.way == "cut" else "final"), case
        assert receipt.model == (FALLBACK if case.falls_back else RELEASE), case
        assert (receipt.requested_model, receipt.unpriced) == (ALIAS, []), case
    assert len(cases) == len({receipt.id for receipt in receipts}) > 500
    assert balance.spent == sum(receipt.charged_credits for receipt in receipts)
    assert usage.sums.cost_usd == total_of(receipts)


async def test_a_refusal_costs_what_came_of_it(database: Database, tmp_path: Path) -> None:
    counts = TokenCounts(1_001, 0, cache_read=3_007, cache_write_1h=5_011)
    spoken = replace(counts, output=1)
    usages = [UsageObject(each, inference_geo="us") for each in (counts, spoken)]
    asked = [
        Asked(
            Reply([], usage=usage.started(), final_usage=usage.ended(), stop_reason="refusal"),
            RELEASE,
            streamed=streamed,
        )
        for usage in usages
        for streamed in (True, False)
    ]
    async with a_priced_wire(database, tmp_path, PriceList()) as wire:
        receipts = await wire.bill("refused", asked)

    # 5, 25, 0.5 and 10 dollars per million tokens, in the United States.
    expected = Decimal("1.1") * (Decimal("0.005005") + Decimal("0.0015035") + Decimal("0.05011"))
    assert [receipt.cost_usd for receipt in receipts] == [*(0, 0), *[expected + Decimal("0.0000275")] * 2]
    assert {receipt.stop_reason for receipt in receipts} == {"refusal"}
