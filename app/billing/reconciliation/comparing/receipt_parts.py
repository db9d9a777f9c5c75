"""Receipts of several parts -> what each model of them used; pure."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal

from app.billing.prices.usage_reading import ADVISOR, PricedPart, read_usage
from app.billing.receipts.records import Receipt
from app.billing.reconciliation import records
from app.ids import AccountId
from app.usage.records import TokenUsage

_SEARCHES = "web_search_requests"


def recorded_parts(receipt: Receipt) -> Iterator[records.RecordedUsage]:
    """The usage of each part: the provider reports the tokens of an advisor under the advisor's model."""
    charged = _charged_by_model(receipt)
    if receipt.basis != "adjustment":
        reading = read_usage(receipt.model, receipt.usage, receipt.provider_usage)
        for number, part in enumerate(reading.parts):
            searches = reading.server_tools.get(_SEARCHES, 0) if number == 0 else 0
            yield _recorded(
                receipt,
                part,
                counts=_counts(part.usage, searches),
                receipts=1 if number == 0 else 0,
                cost_usd=charged.pop(part.model, Decimal(0)),
            )
    for model, dollars in charged.items():
        part = PricedPart("message", model, TokenUsage())
        yield _recorded(receipt, part, counts=records.NOTHING, receipts=0, cost_usd=dollars)


def _recorded(
    receipt: Receipt, part: PricedPart, *, counts: records.Counts, receipts: int, cost_usd: Decimal
) -> records.RecordedUsage:
    is_own = part.model == receipt.model
    return records.RecordedUsage(
        began=records.floor_to(receipt.used_at, records.MINUTE),
        ended=records.floor_to(receipt.created_at, records.MINUTE),
        account_id=AccountId(receipt.account_id),
        dimensions=records.normal_dimensions(
            part.model,
            inference_geo=receipt.inference_geo,
            service_tier=receipt.service_tier,
            # The speed is that of the model that was asked; an advisor is another one.
            speed=None if part.name == ADVISOR else receipt.speed,
            context_window=records.LONG_CONTEXT if part.usage.prompt_tokens > records.LONG_PROMPT else None,
        ),
        counts=counts,
        receipts=receipts,
        cost_usd=cost_usd,
        served_model=part.model,
        requested_model=receipt.requested_model if is_own else None,
        estimated_output=receipt.output_estimated and is_own,
        refused=receipt.billed.is_free,
        unpriced=bool(receipt.unpriced),
    )


def _counts(usage: TokenUsage, searches: int) -> records.Counts:
    return records.counts_of_usage(replace(usage, web_search_requests=searches))


def _charged_by_model(receipt: Receipt) -> dict[str, Decimal]:
    """What is charged for tokens and searches; other tools of the provider are in no usage report."""
    charged: dict[str, Decimal] = defaultdict(Decimal)
    for line in receipt.lines:
        if line["kind"] in records.KINDS or ":" in line["kind"]:
            charged[line["model"]] += Decimal(line["amount_usd"])
    return dict(charged) if receipt.lines else {receipt.model: receipt.cost_usd}
