"""Messages in every combination of what their price depends on, and their price by another calculation.

The calculation uses the public list of prices and the provider's rules, none of our own code.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Literal

from app.simulator.script import Reply, Text
from tests.provider.usage_objects import Iteration, TokenCounts, UsageObject
from tests.unit.billing.prices.public_prices import PUBLIC_PRICES

ALIAS, RELEASE = "claude-opus-4-6", "claude-opus-4-6-20260205"
"""Requested, and what serves it; also at the fast speed and in the United States."""
FALLBACK, ADVISOR = "claude-opus-4-7", "claude-opus-5-5"
"""What serves instead of a model that declined, and what a model consults."""
RELEASES = {ALIAS: RELEASE}

Way = Literal["streamed", "whole", "cut"]
WAYS: tuple[Way, ...] = ("streamed", "whole", "cut")

VALUES = [
    *itertools.product([None, "us"], [None, "batch"], [None, "fast"]),
    ("global", "standard", "standard"),
]
"""Region, tier and speed; what stands for the default costs as much as nothing."""
GEO = {"us": Decimal("1.1")}
TIER = {"batch": Decimal("0.5")}

CACHE = {
    "no cache": TokenCounts(1_001, 2_003),
    "read": TokenCounts(1_001, 2_003, cache_read=3_007),
    "5 minutes": TokenCounts(1_001, 2_003, cache_write_5m=4_009),
    "1 hour": TokenCounts(1_001, 2_003, cache_write_1h=5_011),
    "all": TokenCounts(1_001, 2_003, cache_read=3_007, cache_write_5m=4_009, cache_write_1h=5_011),
}
KINDS = {
    "one": (),
    "two": ("message", "message"),
    "compaction": ("compaction",),
    "advisor": ("message", "advisor_message"),
    "compaction and advisor": ("compaction", "message", "advisor_message"),
    "fallback": ("message", "fallback_message"),
}
TOOLS = {"none": {}, "searches and fetches": {"web_search_requests": 3, "web_fetch_requests": 7}}
SEARCH = Decimal("0.01")

OWN = TokenCounts(70_001, 1_301, cache_read=17, cache_write_5m=19, cache_write_1h=23)
"""Of a compaction, an advisor's call, and a model that declined."""
WORDS = 2
"""Received of a message that was cut off; the scripted provider counts one token a word."""
CUT_AFTER = 5
"""Events: message_start, ping, content_block_start, two deltas."""

STORED = Decimal("0.0000000001")
"""Receipts have ten decimals."""
MILLION = Decimal(1_000_000)


@dataclass(frozen=True, slots=True)
class Case:
    """One message."""

    geo: str | None
    tier: str | None
    speed: str | None
    kinds: str
    cache: str
    tools: str
    way: Way

    @property
    def falls_back(self) -> bool:
        return self.kinds == "fallback"

    @property
    def counts(self) -> TokenCounts:
        """The message's own counts; of one that was cut off, what came."""
        return replace(CACHE[self.cache], output=WORDS) if self.way == "cut" else CACHE[self.cache]

    def reply(self) -> Reply:
        usage = UsageObject(
            self.counts,
            inference_geo=self.geo,
            service_tier=self.tier,
            speed=self.speed,
            server_tools=TOOLS[self.tools],
            iterations=list(self._iterations()),
        )
        model = FALLBACK if self.falls_back else None
        blocks = [Text("one two three four")]
        if self.way != "cut":
            return Reply(blocks, usage=usage.started(), final_usage=usage.ended(), model=model)
        # All that the provider ever says about this message comes first.
        return Reply(blocks, usage={**usage.to_json(), "output_tokens": 1}, model=model, cut_after=CUT_AFTER)

    def dollars(self) -> Decimal:
        """What the provider charges, exactly."""
        served = FALLBACK if self.falls_back else RELEASE
        cost = self._tokens(served, self.counts)
        if self.falls_back:
            cost += self._tokens(RELEASE, OWN)
        if "compaction" in KINDS[self.kinds]:
            cost += self._tokens(served, OWN)
        if "advisor_message" in KINDS[self.kinds]:
            cost += replace(self, speed=None)._tokens(ADVISOR, OWN)
        return cost + TOOLS[self.tools].get("web_search_requests", 0) * SEARCH

    def _tokens(self, model: str, counts: TokenCounts) -> Decimal:
        price = PUBLIC_PRICES[model]
        dollars = (
            counts.input * Decimal(price.input)
            + counts.output * Decimal(price.output)
            + counts.cache_read * Decimal(price.cache_read)
            + counts.cache_write_5m * Decimal(price.cache_write_5m)
            + counts.cache_write_1h * Decimal(price.cache_write_1h or 0)
        ) / MILLION
        fast = Decimal(price.fast or 0) if self.speed == "fast" else 1
        return dollars * GEO.get(self.geo or "", 1) * TIER.get(self.tier or "", 1) * fast

    def _iterations(self) -> Iterator[Iteration]:
        sampled = list(_halves(self.counts)) if self.kinds == "two" else [self.counts]
        for kind in KINDS[self.kinds]:
            match kind:
                case "compaction":
                    yield Iteration("compaction", OWN)
                case "advisor_message":
                    yield Iteration("advisor_message", OWN, ADVISOR)
                case "fallback_message":
                    yield Iteration("fallback_message", self.counts, FALLBACK)
                case _ if self.falls_back:
                    yield Iteration("message", OWN, RELEASE)
                case _:
                    yield Iteration("message", sampled.pop(), RELEASE)


def every_case() -> list[Case]:
    """All combinations of region, tier, speed, iterations, cache and tools.

    How an answer arrives changes no price: each value of the others is there in each way, but not each
    combination.
    """
    return [
        Case(*values, kinds=kinds, cache=cache, tools=tools, way=WAYS[sum(places) % len(WAYS)])
        for places, (values, kinds, cache, tools) in zip(
            itertools.product(*(range(len(each)) for each in (VALUES, KINDS, CACHE, TOOLS))),
            itertools.product(VALUES, KINDS, CACHE, TOOLS),
            strict=True,
        )
    ]


def _halves(counts: TokenCounts) -> tuple[TokenCounts, TokenCounts]:
    first = TokenCounts(
        counts.input // 3,
        counts.output // 3,
        cache_read=counts.cache_read // 3,
        cache_write_5m=counts.cache_write_5m // 3,
        cache_write_1h=counts.cache_write_1h // 3,
    )
    return first, TokenCounts(
        counts.input - first.input,
        counts.output - first.output,
        cache_read=counts.cache_read - first.cache_read,
        cache_write_5m=counts.cache_write_5m - first.cache_write_5m,
        cache_write_1h=counts.cache_write_1h - first.cache_write_1h,
    )
