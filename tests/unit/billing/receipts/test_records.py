from dataclasses import fields
from datetime import UTC, datetime
from decimal import Decimal

from sqlalchemy.dialects.postgresql import asyncpg

from app.billing.prices.price_list import Charge
from app.billing.prices.quote import PriceLine
from app.billing.receipts.records import NewReceipt, Receipt
from app.billing.receipts.repository import _INSERT
from app.billing.receipts.tables import charge_receipts
from app.billing.reports.records import UsageSums
from app.billing.reports.tables import usage_rollups
from app.http.api.receipts.schemas import ReceiptResponse
from app.usage.records import TokenUsage
from tests.unit.billing.receipts.journals import a_fact

CHARGE = Charge(Decimal("0.5"), 5, "v1", Decimal("0.1"))


def test_table_insert_and_response_have_the_columns_of_a_receipt() -> None:
    columns = [field.name for field in fields(Receipt)]

    assert [column.name for column in charge_receipts.c] == columns
    dialect = asyncpg.dialect()  # type: ignore[no-untyped-call]

    assert {*_INSERT.compiled(dialect).names} == {*columns} - {"created_at"}
    assert set(ReceiptResponse.model_fields) == {*columns}


def test_sums_are_columns_of_receipts_and_of_rollups() -> None:
    summed = {field.name for field in fields(UsageSums)} - {"receipts"}

    # Fetched pages are only in the provider's usage object.
    assert summed - {"web_fetch_requests"} <= {*charge_receipts.c.keys()}
    assert summed <= {*usage_rollups.c.keys()}


def test_a_receipt_has_the_values_of_its_fact_and_its_charge() -> None:
    fact = a_fact(output=7)

    receipt = NewReceipt.of(fact, CHARGE, "final")

    assert receipt.source_reference == fact.source_reference
    assert (receipt.account_id, receipt.run_id) == fact.run
    assert (receipt.api_key_id, receipt.graph_id) == (fact.attribution.api_key_id, fact.attribution.graph_id)
    assert receipt.usage == fact.usage
    assert (receipt.cost_usd, receipt.charged_credits) == (Decimal("0.5"), 5)
    assert (receipt.price_version, receipt.cache_savings_usd) == ("v1", Decimal("0.1"))


def test_an_adjustment_charges_the_same_message_without_counting_its_tokens_again() -> None:
    new = NewReceipt.of(a_fact(), Charge(Decimal(0), 0, "none"), "unpriced")
    values = {field.name: getattr(new, field.name) for field in fields(NewReceipt)}
    unpriced = Receipt(**values, created_at=datetime.now(UTC))

    adjustment = unpriced.adjustment(CHARGE, source_system="later")

    assert (adjustment.source_system, adjustment.source_reference) == ("later", new.source_reference)
    assert (adjustment.basis, adjustment.charged_credits, adjustment.usage) == ("adjustment", 5, TokenUsage())
    assert adjustment.id != new.id


def a_line(kind: str, quantity: str, unit_price: str, amount: str) -> PriceLine:
    line = PriceLine("message", kind, "m", Decimal(quantity), Decimal(unit_price))
    assert line.amount_usd == Decimal(amount)
    return line


def test_corrections_take_back_what_is_wrong_and_add_up_however_often() -> None:
    same = a_line("web_search_requests", "1", "0.01", "0.01")
    wrong, better, right = (a_line("input", "1000", price, amount) for price, amount in PRICES)
    charges = [
        Charge(sum_of(lines), int(sum_of(lines) * 10_000_000), "v1", lines=lines)
        for lines in ((wrong, same), (better, same), (right, same, same), (right, same, same))
    ]
    first = stored(NewReceipt.of(a_fact(), charges[0], "final"))
    so_far = [first]
    for charge in charges[1:]:
        so_far.append(stored(first.adjustment(charge, source_system="c", earlier=so_far[1:])))

        assert sum(receipt.cost_usd for receipt in so_far) == charge.cost_usd
        assert sum(receipt.charged_credits for receipt in so_far) == charge.charged_credits
        amounts = [Decimal(line["amount_usd"]) for receipt in so_far for line in receipt.lines]
        assert sum(amounts) == charge.cost_usd

    references = [receipt.source_reference.removeprefix(first.source_reference) for receipt in so_far]
    assert references == ["", "", "~2", "~3"]
    assert [dict(line)["quantity"] for line in so_far[1].lines] == ["-1000", "1000"]
    assert (len(so_far[2].lines), so_far[3].lines) == (3, [])


PRICES = [("0.00003", "0.03"), ("0.000003", "0.003"), ("0.000005", "0.005")]


def sum_of(lines: tuple[PriceLine, ...]) -> Decimal:
    return sum((line.amount_usd for line in lines), Decimal(0))


def stored(new: NewReceipt) -> Receipt:
    values = {field.name: getattr(new, field.name) for field in fields(NewReceipt)}
    return Receipt(**values, created_at=datetime.now(UTC))
