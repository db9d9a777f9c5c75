"""A message that is reported twice with different numbers; pure."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from app.billing.prices.usage_reading import DIMENSIONS
from app.ids import MessageId
from app.usage.records import TokenUsage, UsageFact

CONFLICT = "more than was charged before for this message"


def excess_of(fact: UsageFact, charged: TokenUsage) -> UsageFact | None:
    """What a message used beyond what is charged, as a message of its own; None if that is nothing.

    Its id follows from that of the message, so it is charged once as well.
    """
    counts = {
        each.name: getattr(fact.usage, each.name) - getattr(charged, each.name) for each in fields(charged)
    }
    more = TokenUsage(**{name: max(0, count) for name, count in counts.items()})
    if more == TokenUsage():
        return None
    factors: Mapping[str, Any] = {name: fact.reported[name] for name in DIMENSIONS if name in fact.reported}
    return replace(
        fact,
        message_id=MessageId(f"{fact.message_id}~more"),
        usage=more,
        reported=factors,
        cache_miss=None,
        note=CONFLICT,
    )
