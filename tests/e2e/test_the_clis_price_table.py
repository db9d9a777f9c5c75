"""The price table in the CLI, model by model, beside the second public list that our prices are held against.

A new release of the CLI may know a price that has changed.
"""

import re
from decimal import Decimal

from app.executors.claude_agent.meters.cli_costs import TOLERANCE_USD
from app.simulator.script import Reply, Text
from app.simulator.server import Simulator
from tests.provider.usage_objects import TokenCounts, UsageObject
from tests.rehearsal.started_cli import a_lean_client, asked, result_of
from tests.unit.billing.prices.public_prices import PUBLIC_PRICES, PublicPrice

MODELS = [model for model in PUBLIC_PRICES if re.fullmatch(r"claude-[a-z]+-\d(-\d)?", model)]
"""By the names that the CLI knows: without dates."""
COUNTS = TokenCounts(input=101, output=203, cache_read=307, cache_write_5m=409, cache_write_1h=511)


def dollars(price: PublicPrice) -> Decimal:
    """The price of `COUNTS` in the United States, at the fast speed where there is one."""
    rates = (price.input, price.output, price.cache_read, price.cache_write_5m, price.cache_write_1h or "0")
    counts = (101, 203, 307, 409, 511)
    plain = sum((Decimal(rate) * count for rate, count in zip(rates, counts, strict=True)), Decimal(0))
    return plain / 1_000_000 * Decimal(price.us or 1) * Decimal(price.fast or 1)


async def test_the_cli_has_the_prices_of_the_public_list() -> None:
    found: dict[str, Decimal] = {}
    async with Simulator(lambda _: reply) as simulator, a_lean_client(simulator.url, []) as client:
        total = Decimal(0)
        for model in MODELS:
            price = PUBLIC_PRICES[model]
            usage = UsageObject(
                COUNTS,
                inference_geo="us" if price.us else "global",
                speed="fast" if price.fast else "standard",
            )
            reply = Reply([Text("x")], usage=usage.started(), final_usage=usage.ended())
            # The first request of a model only asks whether it exists; the CLI does not count it.
            await client.set_model(model)
            before, total = total, Decimal(repr(result_of(await asked(client)).total_cost_usd))
            found[model] = total - before

    differing = {
        model: (cost, dollars(PUBLIC_PRICES[model]))
        for model, cost in found.items()
        if abs(cost - dollars(PUBLIC_PRICES[model])) > TOLERANCE_USD
    }
    assert len(MODELS) > 15
    assert differing == {}
