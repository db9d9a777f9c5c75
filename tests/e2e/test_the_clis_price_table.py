"""The price table in the CLI, model by model, beside the second public list that our prices are held against.

A new release of the CLI may know a price that has changed.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ResultMessage

from app.executors.claude_agent.meters.cli_costs import TOLERANCE_USD
from app.executors.claude_agent.process.cli import bundled_cli
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.environment import cli_environment, launcher
from app.models.registry import ModelOptions
from app.simulator.script import Reply, Responder, Text
from app.simulator.server import Simulator
from tests.patience import PATIENCE_S
from tests.provider.usage_objects import TokenCounts, UsageObject
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


@asynccontextmanager
async def a_cli(directory: Path, url: str) -> AsyncIterator[ClaudeSDKClient]:
    """The SDK with its CLI, pointed at a provider."""
    run = RunDirectory(directory)
    environment = cli_environment(
        token="t", base_url=url, directory=run.path, longest_tool_s=30, options=ModelOptions()
    )
    script = run.path / "launch"
    script.write_text(launcher(bundled_cli(), environment, pid_file=run.pid_file))
    os.chmod(script, 0o700)  # noqa: PTH101 - as the executor does
    options = ClaudeAgentOptions(
        system_prompt="p",
        thinking={"type": "disabled"},
        tools=[],
        strict_mcp_config=True,
        setting_sources=[],
        cli_path=script,
        cwd=run.work,
        extra_args={"bare": None},
    )
    async with ClaudeSDKClient(options) as client:
        yield client


def always(reply: Reply) -> Responder:
    return lambda _: reply


async def total_after_a_message(client: ClaudeSDKClient, model: str) -> Decimal:
    """What the CLI has counted in sum, after one more message of this model."""
    await client.set_model(model)
    await client.query("go")
    async with asyncio.timeout(PATIENCE_S):
        async for message in client.receive_messages():
            if isinstance(message, ResultMessage):
                return Decimal(repr(message.total_cost_usd))
    raise AssertionError


async def test_the_cli_has_the_prices_of_the_public_list(tmp_path: Path) -> None:
    found: dict[str, Decimal] = {}
    async with Simulator(lambda _: Reply()) as simulator, a_cli(tmp_path, simulator.url) as client:
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
            simulator.responder = always(reply)
            before, total = total, await total_after_a_message(client, model)
            found[model] = total - before

    differing = {
        model: (cost, dollars(PUBLIC_PRICES[model]))
        for model, cost in found.items()
        if abs(cost - dollars(PUBLIC_PRICES[model])) > TOLERANCE_USD
    }
    assert len(MODELS) > 15
    assert differing == {}
