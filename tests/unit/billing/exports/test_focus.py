"""Rows of FOCUS: sums are exact, and each row follows the rules of the specification.

The rules are those of FOCUS 1.2 (specification/columns/*.md) that can be read off a row. The validator of the
specification needs another Python than ours: docs/decisions/0118 has what it found.
"""

import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.billing.exports.focus import COLUMNS, AccountNames, FocusRow, focus_rows
from app.billing.prices.model_price import DatedFactors, Factors
from app.billing.prices.price_list import PriceList
from app.billing.receipts.records import Receipt
from app.http.streaming.csv_table import CsvTable
from tests.unit.billing.exports.charged import (
    BATCH,
    EVERY_KIND,
    KEY,
    MARKUPS,
    STORED_AT,
    USED_AT,
    charged,
    corrected,
    stored,
)

NAMES = AccountNames("acme", {KEY.id: "production"})
COSTS = ("BilledCost", "EffectiveCost", "ContractedCost", "ListCost")

TEXT = re.compile(r"\S(.*\S)?", re.DOTALL)
DECIMAL = re.compile(r"-?\d+(\.\d+)?([eE]-?\d+)?")
PRICE = re.compile(r"\d+(\.\d+)?([eE]-?\d+)?")
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
OBJECT = re.compile(r"\{.*\}")
USAGE = "when it is no correction"
RULES: dict[str, tuple[re.Pattern[str], str]] = {
    **dict.fromkeys(
        ("BillingAccountId", "BillingAccountName", "SubAccountId", "SubAccountName"), (TEXT, "always")
    ),
    **dict.fromkeys(
        ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"), (MOMENT, "always")
    ),
    **dict.fromkeys(COSTS, (DECIMAL, "always")),
    "BillingCurrency": (re.compile("USD"), "always"),
    "ChargeCategory": (re.compile("Usage|Purchase|Tax|Credit|Adjustment"), "always"),
    "ChargeClass": (re.compile("Correction"), "maybe"),
    "ChargeDescription": (TEXT, "always"),
    "ChargeFrequency": (re.compile("One-Time|Recurring|Usage-Based"), "always"),
    "ConsumedQuantity": (DECIMAL, USAGE),
    "ConsumedUnit": (re.compile("Tokens|Requests"), "with ConsumedQuantity"),
    "ListUnitPrice": (PRICE, USAGE),
    "PricingCategory": (re.compile("Standard|Dynamic|Committed|Other"), USAGE),
    "PricingQuantity": (DECIMAL, USAGE),
    "PricingUnit": (re.compile("Tokens|Requests"), "with PricingQuantity"),
    **dict.fromkeys(("ProviderName", "PublisherName", "InvoiceIssuerName", "ServiceName"), (TEXT, "always")),
    "ServiceCategory": (re.compile("AI and Machine Learning"), "always"),
    "ServiceSubcategory": (re.compile("Generative AI"), "always"),
    **dict.fromkeys(("SkuId", "SkuPriceId"), (TEXT, USAGE)),
    "SkuMeter": (TEXT, "with SkuId"),
    "SkuPriceDetails": (OBJECT, "with SkuPriceId"),
    "Tags": (OBJECT, "maybe"),
    "InvoiceId": (TEXT, "maybe"),
    "CommitmentDiscountStatus": (re.compile("Used|Unused"), "maybe"),
}
"""The text of each column, and when there must be one."""


def rows_of(receipt: Receipt) -> list[FocusRow]:
    return list(focus_rows(receipt, NAMES))


def sums(rows: list[FocusRow]) -> tuple[Decimal, ...]:
    return tuple(sum((row[name] for row in rows), Decimal(0)) for name in COSTS)


def is_exact(receipt: Receipt) -> bool:
    """Whether the costs of the rows are those of the receipt."""
    billed = Decimal(receipt.charged_credits) / 10_000_000
    return sums(rows_of(receipt)) == (billed, billed, billed, receipt.cost_usd)


def broken_rules(row: dict[str, str]) -> list[str]:
    """The columns of a line of CSV that break a rule."""
    broken = []
    for name, (pattern, when) in RULES.items():
        needed = {"always": True, "maybe": False, USAGE: row["ChargeClass"] != "Correction"}
        other = row.get(when.removeprefix("with "), "")
        if not (pattern.fullmatch(row[name]) if row[name] else not needed.get(when, bool(other))):
            broken.append(name)
    if row["ChargeClass"] != "Correction":
        product = Decimal(row["ListUnitPrice"]) * Decimal(row["PricingQuantity"])
        broken += ["ListCost"] if product != Decimal(row["ListCost"]) else []
    for name in ("Tags", "SkuPriceDetails"):
        held = json.loads(row[name] or "{}")
        broken += [name] if not all(isinstance(value, str) for value in held.values()) else []
    return broken


def dearer(markup: str = "1") -> PriceList:
    """Another geography costs more than before, and a speed has a price."""
    factors = Factors({"inference_geo": {"us": Decimal("1.3")}, "speed": {"warp": Decimal(3)}})
    own = DatedFactors(frozenset(), USED_AT, factors, version="v2")
    return PriceList(operator_factors=[own], markup=Decimal(markup))


PARTLY_UNPRICED = {**EVERY_KIND, "speed": "warp"}
RECEIPTS: dict[str, Callable[[], Receipt]] = {
    "every kind": lambda: charged(EVERY_KIND, tags={"team": "search"}, end_user="u-1"),
    "a batch": lambda: charged(BATCH, prices=PriceList(markup=MARKUPS["with a markup"])),
    "without a price": lambda: charged(PARTLY_UNPRICED),
    "free": lambda: charged({"input_tokens": 0, "output_tokens": 0}),
    "priced later": lambda: corrected(charged(PARTLY_UNPRICED), dearer()),
    "another factor": lambda: corrected(charged(BATCH), dearer()),
    "another markup": lambda: corrected(charged(EVERY_KIND), PriceList(markup=Decimal("1.5"))),
}


@pytest.mark.parametrize("kind", RECEIPTS)
def test_rows_add_up_and_follow_the_specification(kind: str) -> None:
    receipt = RECEIPTS[kind]()
    table = CsvTable(COLUMNS)
    text = table.start() + table.add(row.values() for row in rows_of(receipt)) + table.end()
    lines = list(csv.DictReader(io.StringIO(text)))

    assert is_exact(receipt)
    assert len(lines) == len(rows_of(receipt))
    assert [broken_rules(line) for line in lines] == [[] for _ in lines]
    assert {line["ChargeClass"] for line in lines} <= {"Correction" if receipt.basis == "adjustment" else ""}


def test_there_is_a_row_for_each_kind_and_a_discount_is_in_its_price() -> None:
    rows = rows_of(charged(BATCH))

    assert [(row["SkuId"], row["PricingQuantity"], row["PricingUnit"]) for row in rows] == [
        ("claude-sonnet-4-6/input", 1013, "Tokens"),
        ("claude-sonnet-4-6/output", 207, "Tokens"),
        ("claude-sonnet-4-6/cache_read", 5003, "Tokens"),
        ("claude-sonnet-4-6/cache_write_5m", 400, "Tokens"),
        ("claude-sonnet-4-6/cache_write_1h", 201, "Tokens"),
        ("claude-sonnet-4-6/web_search_requests", 3, "Requests"),
        ("claude-sonnet-4-6/web_fetch_requests", 2, "Requests"),
    ]
    assert rows[0]["ListUnitPrice"] == Decimal("0.000003") * Decimal("1.1") * Decimal("0.5")
    assert json.loads(rows[0]["SkuPriceDetails"])["x_Factors"] == "inference_geo:us service_tier:batch"
    assert rows[5]["ListUnitPrice"] == Decimal("0.01")


def test_a_correction_is_billed_in_the_month_in_which_it_is_made() -> None:
    first, *_ = rows_of(RECEIPTS["every kind"]())
    (correction,) = rows_of(RECEIPTS["another markup"]())

    assert (first["BillingPeriodStart"].month, first["BillingPeriodEnd"]) == (
        10,
        correction["BillingPeriodStart"],
    )
    assert correction["BillingPeriodStart"] == STORED_AT.replace(second=0)
    assert (correction["ChargePeriodStart"], correction["ListCost"]) == (USED_AT.replace(microsecond=0), 0)


def test_end_users_and_tags_are_tags() -> None:
    def tags(**labels: Any) -> Any:
        found = {row["Tags"] for row in rows_of(charged(EVERY_KIND, **labels))}
        (text,) = found
        return text if text is None else json.loads(text)

    assert tags() is None
    assert tags(tags={"team": "search"}, end_user="ü") == {"team": "search", "runtally:endUser": "ü"}


TOKENS = st.integers(0, 10_000_000)
PARTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
USAGES = st.fixed_dictionaries(
    dict.fromkeys(PARTS, TOKENS),
    optional={
        "service_tier": st.sampled_from(["batch", "standard", "unheard-of"]),
        "inference_geo": st.sampled_from(["us", "global"]),
        "server_tool_use": st.fixed_dictionaries({"web_search_requests": st.integers(0, 50)}),
    },
)
MARKUP = st.decimals("0.0001", "100", places=7)


@given(USAGES, MARKUP, MARKUP)
def test_every_receipt_and_every_correction_adds_up(
    usage: dict[str, Any], markup: Decimal, later: Decimal
) -> None:
    receipt = charged(usage, prices=PriceList(markup=markup))
    correction = corrected(receipt, dearer(str(later)))
    rows = rows_of(receipt)

    assert is_exact(receipt)
    assert is_exact(correction)
    assert all(row["BilledCost"] >= 0 and row["ListCost"] >= 0 for row in rows)


def test_rows_without_lines_that_explain_them_are_one_row() -> None:
    receipt = charged(EVERY_KIND)
    taken_back = [{**line, "quantity": "-1", "amount_usd": "-0.000003"} for line in receipt.lines[:1]]
    odd = stored(replace(receipt, lines=[*receipt.lines, *taken_back], basis="adjustment"))

    assert len(rows_of(odd)) == 1
    assert is_exact(odd)
