"""Receipts as rows of FOCUS, the open specification of cost and usage data; pure.

The costs of a receipt's rows add up to the receipt, to the last digit: `ListCost` to its `cost_usd`, the
others to what is charged. Factors, such as that of a batch, are part of a row's price: the specification
wants discounts applied to the row and not taken off in another one.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal, localcontext
from typing import Any, Literal, TypeAlias
from uuid import UUID

from app.billing.prices.price_list import CREDITS_PER_DOLLAR, rounded
from app.billing.prices.quote import plain
from app.billing.prices.usage_reading import DIMENSIONS
from app.billing.receipts.records import Receipt
from app.ids import ApiKeyId

FOCUS_VERSION = "1.2"

ColumnType: TypeAlias = Literal["text", "moment", "cost", "price", "quantity"]

COLUMNS: Mapping[str, ColumnType] = {
    **dict.fromkeys(("BillingAccountId", "BillingAccountName", "SubAccountId", "SubAccountName"), "text"),
    **dict.fromkeys(
        ("BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"), "moment"
    ),
    **dict.fromkeys(("ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency"), "text"),
    **dict.fromkeys(("BilledCost", "EffectiveCost", "ContractedCost", "ListCost"), "cost"),
    # The validator of the specification evaluates conditions on the last one, which is always empty.
    **dict.fromkeys(("BillingCurrency", "InvoiceId", "CommitmentDiscountStatus"), "text"),
    "ListUnitPrice": "price",
    "PricingCategory": "text",
    "PricingQuantity": "quantity",
    "PricingUnit": "text",
    "ConsumedQuantity": "quantity",
    "ConsumedUnit": "text",
    **dict.fromkeys(("SkuId", "SkuMeter", "SkuPriceId", "SkuPriceDetails"), "text"),
    **dict.fromkeys(("ProviderName", "PublisherName", "InvoiceIssuerName"), "text"),
    **dict.fromkeys(("ServiceCategory", "ServiceSubcategory", "ServiceName", "Tags"), "text"),
    **dict.fromkeys(("x_ReceiptId", "x_RunId", "x_MessageId", "x_GraphId", "x_Basis", "x_Origin"), "text"),
}
"""Every column, in their order; those that begin with `x_` are ours."""

END_USER_TAG = "runtally:endUser"
"""The end user among the tags; the name of a tag of the caller has no colon."""

_METERS = {
    "input": "Input Tokens",
    "output": "Output Tokens",
    "cache_read": "Cache Read Tokens",
    "cache_write_5m": "Cache Write Tokens (5 minutes)",
    "cache_write_1h": "Cache Write Tokens (1 hour)",
}
PRICE_DECIMALS = 18
"""More than any price of a token times its factors has."""
_NO_TOKENS = Decimal("0.0")
_EXACT_DIGITS = 60
"""Enough for a product of a quantity, a price and three factors."""

FocusRow: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AccountNames:
    """The name of an account, and those of its keys."""

    account: str
    keys: Mapping[ApiKeyId, str]


@dataclass(frozen=True, slots=True)
class _Meter:
    """A line of a receipt, with the factors that apply to it."""

    part: str
    kind: str
    model: str
    quantity: Decimal
    unit_price: Decimal
    factors: tuple[str, ...] = ()

    @property
    def amount(self) -> Decimal:
        return self.quantity * self.unit_price


def focus_rows(receipt: Receipt, names: AccountNames) -> Iterator[FocusRow]:
    """One row for each kind of token and tool; one for a correction that cannot be divided so."""
    charged = Decimal(receipt.charged_credits) / CREDITS_PER_DOLLAR
    shared = _shared(receipt, names)
    with localcontext(prec=_EXACT_DIGITS):
        meters = _meters(receipt.lines)
        amounts = [meter.amount for meter in meters]
        is_divisible = _is_divisible(receipt, amounts)
        listed, billed = _divided(receipt.cost_usd, amounts), _divided(charged, amounts)
    if not is_divisible:
        if receipt.cost_usd or charged:
            yield shared | _costs(receipt.cost_usd, charged)
        return
    for meter, list_cost, billed_cost in zip(meters, listed, billed, strict=True):
        yield shared | _costs(list_cost, billed_cost) | _usage(meter, receipt.price_version)


def _meters(lines: Iterable[Mapping[str, str]]) -> list[_Meter]:
    """The lines without those of factors, which follow the lines that they multiply."""
    done: list[_Meter] = []
    group: list[_Meter] = []
    for line in lines:
        quantity, price = Decimal(line["quantity"]), Decimal(line["unit_price_usd"])
        if line["kind"].partition(":")[0] in DIMENSIONS:
            group = [_multiplied(meter, line, 1 + price) for meter in group]
            continue
        if any(meter.factors for meter in group):
            done, group = [*done, *group], []
        group.append(_Meter(line["part"], line["kind"], line["model"], quantity, price))
    return [*done, *group]


def _multiplied(meter: _Meter, line: Mapping[str, str], factor: Decimal) -> _Meter:
    if (meter.part, meter.model) != (line["part"], line["model"]):
        return meter
    return replace(meter, unit_price=meter.unit_price * factor, factors=(*meter.factors, line["kind"]))


def _is_divisible(receipt: Receipt, amounts: Sequence[Decimal]) -> bool:
    """Whether the amounts are all that is charged, and none of them takes off from another.

    An adjustment may take back lines, or a factor alone.
    """
    exact = sum((Decimal(line["amount_usd"]) for line in receipt.lines), Decimal(0))
    has_one_sign = all(amount >= 0 for amount in amounts) or all(amount <= 0 for amount in amounts)
    free = not (receipt.cost_usd or receipt.charged_credits)
    return bool(amounts) and sum(amounts) == exact and has_one_sign and (exact != 0 or free)


def _divided(total: Decimal, amounts: Sequence[Decimal]) -> list[Decimal]:
    """The total in proportion to the amounts, to ten decimals; what rounding leaves is passed on.

    So the parts add up to the total, and each is within a rounding step of its exact share.
    """
    whole = sum(amounts, Decimal(0)) or Decimal(1)
    parts, passed, given = [], Decimal(0), Decimal(0)
    for amount in amounts:
        passed += amount
        upto = rounded(total * passed / whole)
        parts.append(upto - given)
        given = upto
    return parts


def _costs(list_cost: Decimal, billed_cost: Decimal) -> FocusRow:
    billed = dict.fromkeys(("BilledCost", "EffectiveCost", "ContractedCost"), billed_cost)
    return {"ListCost": list_cost, **billed}


def _usage(meter: _Meter, price_version: str) -> FocusRow:
    unit = "Tokens" if meter.kind in _METERS else "Requests"
    name = _METERS.get(meter.kind) or meter.kind.replace("_", " ").title()
    sku = f"{meter.model}/{meter.kind}"
    details = {"x_PriceVersion": price_version, "x_Part": meter.part}
    if meter.factors:
        details["x_Factors"] = " ".join(meter.factors)
    return {
        "ChargeDescription": f"{plain(meter.quantity)} {name} of {meter.model}",
        "ListUnitPrice": round(meter.unit_price, PRICE_DECIMALS),
        "PricingCategory": "Standard",
        # With a decimal place: readers that guess types from CSV take it for the decimal that it must be.
        **dict.fromkeys(("PricingQuantity", "ConsumedQuantity"), round(meter.quantity, 1)),
        **dict.fromkeys(("PricingUnit", "ConsumedUnit"), unit),
        "SkuId": sku,
        "SkuMeter": name,
        # The price is in it: that of a model may depend on the length of the prompt.
        "SkuPriceId": f"{sku}@{plain(meter.unit_price)}",
        "SkuPriceDetails": json.dumps(details, ensure_ascii=False),
    }


def _shared(receipt: Receipt, names: AccountNames) -> FocusRow:
    is_correction = receipt.basis == "adjustment"
    began = receipt.used_at.astimezone(UTC).replace(microsecond=0)
    # A correction belongs to the month in which it is charged.
    month = _month_of(receipt.created_at if is_correction else receipt.used_at)
    tags = {**(receipt.tags or {}), **({END_USER_TAG: receipt.end_user} if receipt.end_user else {})}
    return dict.fromkeys(COLUMNS) | {
        "BillingAccountId": str(receipt.account_id),
        "BillingAccountName": names.account,
        "SubAccountId": str(receipt.api_key_id),
        "SubAccountName": _key_name(names, receipt.api_key_id),
        "BillingPeriodStart": month,
        "BillingPeriodEnd": _month_of(month + timedelta(days=31)),
        "ChargePeriodStart": began,
        "ChargePeriodEnd": began + timedelta(seconds=1),
        "ChargeCategory": "Usage",
        "ChargeClass": "Correction" if is_correction else None,
        "ChargeDescription": f"Correction of {receipt.usage_unit_id}",
        "ChargeFrequency": "Usage-Based",
        "ConsumedQuantity": _NO_TOKENS,
        "ConsumedUnit": "Tokens",
        "BillingCurrency": "USD",
        **dict.fromkeys(("ProviderName", "InvoiceIssuerName"), "Runtally"),
        "PublisherName": "Anthropic",
        "ServiceCategory": "AI and Machine Learning",
        "ServiceSubcategory": "Generative AI",
        "ServiceName": "Agent runs",
        "Tags": json.dumps(tags, ensure_ascii=False) if tags else None,
        "x_ReceiptId": str(receipt.id),
        "x_RunId": receipt.run_id,
        "x_MessageId": receipt.usage_unit_id,
        "x_GraphId": receipt.graph_id,
        "x_Basis": receipt.basis,
        "x_Origin": receipt.origin,
    }


def _key_name(names: AccountNames, key_id: UUID) -> str:
    # A key that was made after the names were read.
    return names.keys.get(ApiKeyId(key_id), str(key_id))


def _month_of(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
