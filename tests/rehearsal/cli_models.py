"""What the CLI knows of each model: its price, its window, and whether it asks for it at all."""

import asyncio
import re
from collections.abc import Iterator
from typing import Any, get_args

from anthropic.types.model import Model
from claude_agent_sdk import ClaudeSDKClient, ResultMessage

from app.simulator.script import Reply, Text
from app.simulator.server import Simulator
from tests.provider.usage_objects import TokenCounts, UsageObject
from tests.rehearsal.facts import Fact, names
from tests.rehearsal.started_cli import a_lean_client, asked, result_of
from tests.unit.billing.prices.public_prices import PUBLIC_PRICES

TOPIC = "CLI, models"
_UNDATED = re.compile(r"claude-[a-z]+-\d(-\d)?")
_UNKNOWN = "claude-unknown-1"
_TOKENS = 10_000
_PER_MILLION = 1_000_000 / _TOKENS
_PRICED = {
    "input": TokenCounts(input=_TOKENS),
    "output": TokenCounts(output=_TOKENS),
    "cache read": TokenCounts(cache_read=_TOKENS),
    "cache write 5m": TokenCounts(cache_write_5m=_TOKENS),
    "cache write 1h": TokenCounts(cache_write_1h=_TOKENS),
}
_FACTORS: dict[str, dict[str, Any]] = {"us": {"inference_geo": "us"}, "fast": {"speed": "fast"}}
_USED_BY = "app/billing/prices, app/models, app/executors/claude_agent/meters/cli_costs.py"
_STDERR_USED_BY = "app/executors/claude_agent/process/cli_process.py"


def model_facts() -> Iterator[Fact]:
    """One fact for each model that our list of public prices or the official client names."""
    literal = next(kind for kind in get_args(Model) if get_args(kind))
    named = {name for name in (*PUBLIC_PRICES, *get_args(literal)) if _UNDATED.fullmatch(name)}
    yield from asyncio.run(_measured([*sorted(named), _UNKNOWN]))


async def _measured(models: list[str]) -> list[Fact]:
    stderr: list[str] = []
    async with (
        Simulator(lambda _: Reply([Text("x")])) as simulator,
        a_lean_client(simulator.url, stderr) as client,
    ):
        bench = _Bench(simulator, client)
        found = [Fact(TOPIC, model, await bench.measure(model), _USED_BY) for model in models]
    return [*found, Fact(TOPIC, "stderr", names(stderr), _STDERR_USED_BY)]


class _Bench:
    """A CLI that is asked one model after the other."""

    def __init__(self, simulator: Simulator, client: ClaudeSDKClient) -> None:
        self._simulator = simulator
        self._client = client
        self._total = 0.0

    async def measure(self, model: str) -> dict[str, str]:
        """Its prices in dollars per million tokens, its window, and as what the provider is asked for it."""
        await self._client.set_model(model)
        first = await self._message(UsageObject(_PRICED["input"]))
        if first.is_error:
            return {"refused": str(first.result)}
        usage: Any = (first.model_usage or {}).get(model, {})
        found = {
            "asked as": str(self._simulator.requests[-1].body["model"]),
            "context window": str(usage.get("contextWindow")),
            "max output": str(usage.get("maxOutputTokens")),
        }
        prices = {name: await self._price(UsageObject(counts)) for name, counts in _PRICED.items()}
        factors = {
            name: await self._price(UsageObject(_PRICED["input"], **fields)) / prices["input"]
            for name, fields in _FACTORS.items()
        }
        return {
            **found,
            **{name: f"{price:.6g}" for name, price in prices.items()},
            **{name: f"{factor:.4g} x input" for name, factor in factors.items()},
        }

    async def _price(self, usage: UsageObject) -> float:
        before = self._total
        await self._message(usage)
        return (self._total - before) * _PER_MILLION

    async def _message(self, usage: UsageObject) -> ResultMessage:
        reply = Reply([Text("x")], usage=usage.started(), final_usage=usage.ended())
        self._simulator.responder = lambda _: reply
        result = result_of(await asked(self._client))
        self._total = result.total_cost_usd or 0.0
        return result
