"""A wrong price: found by the provider's costs, corrected in the file, adjusted by `reprice`."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from app.billing.credit.ledger import CreditLedger
from app.billing.prices.model_price import ModelPrice, OperatorPrice, Rate
from app.billing.prices.price_list import PriceList
from app.billing.receipts.correction import correct
from app.platform.db import Database
from tests.factories import an_account
from tests.integration.bookkeeping import SONNET, bookkeeping

DAY = datetime(2026, 11, 20, tzinfo=UTC)
NOON = DAY + timedelta(hours=12)


def priced(input_usd: str, *, markup: str = "1") -> PriceList:
    price = ModelPrice(
        version=f"file {input_usd}",
        input=Rate(Decimal(input_usd)),
        output=Rate(Decimal(15)),
        cache_read=Rate(Decimal("0.3")),
        cache_write_5m=Rate(Decimal("3.75")),
        cache_write_1h=Rate(Decimal(6)),
    )
    return PriceList([OperatorPrice(SONNET, DAY, price)], markup=Decimal(markup))


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
