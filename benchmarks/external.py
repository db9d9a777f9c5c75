"""Messages of a client's own agent through Runtally, LiteLLM's proxy and `claude gateway`, and directly.

All variants take turns on the same scripted model, with the same streamed request. First: one at a time, from
the request to the first byte; messages per second and CPU with several at a time. The CPU is that of the
servers with what they start: Runtally's has its PostgreSQL in it, that of `claude gateway` is apart.

Second: a budget in dollars, and many sessions that call until they are refused. What the model has sent, at
its list price, is compared with the budget. Only Runtally reserves what a call may cost before it is made.

    .venv/bin/python -m benchmarks.external
"""

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final, TypeAlias

import psutil

from app.billing.prices.price_list import PriceList
from app.billing.prices.quote import BilledUsage
from app.usage.records import TokenUsage
from benchmarks.claude_gateway import claude_gateway
from benchmarks.markdown import table
from benchmarks.peers import PeerFailed, litellm_proxy
from benchmarks.processes import ProcessTree
from benchmarks.scripted_model import ScriptedModel, Sent, scripted_model
from benchmarks.servers import UNLIMITED, client, running_processes, running_server
from benchmarks.throughput import rate
from benchmarks.variants import MODEL, Run, RunFailed, called

BUDGET: Final = Decimal("0.10")
"""Dollars: more than a hundred messages."""

SESSIONS: Final = 50
_MESSAGES: Final = "/v1/messages"


@dataclass(slots=True)
class Gateway:
    """One way to the model, and its rounds."""

    run: Run
    process: psutil.Process | None = None
    """None: there is only the client."""
    first_ms: list[float] = field(default_factory=list)
    rates: list[float] = field(default_factory=list)
    cpus_ms: list[float] = field(default_factory=list)

    async def measure_first(self) -> None:
        """One message."""
        began = time.perf_counter()
        self.first_ms.append(((await self.run(0)).first - began) * 1000)

    async def measure_rate(self, messages: int, *, at_once: int) -> None:
        """One round."""
        used = self._cpu_s()
        self.rates.append(await rate(self.run, messages, at_once=at_once))
        self.cpus_ms.append((self._cpu_s() - used) / messages * 1000)

    def _cpu_s(self) -> float:
        return 0.0 if self.process is None else ProcessTree(self.process).cpu_s()


Opening: TypeAlias = Callable[[str, Path, Decimal | None], AbstractAsyncContextManager[Gateway]]
"""Starts a gateway for the model at a URL, with a budget in dollars or without; raises `PeerFailed`."""


@asynccontextmanager
async def _direct(model_url: str, _directory: Path, _budget: Decimal | None) -> AsyncIterator[Gateway]:
    async with client(model_url, "simulated") as http:
        yield Gateway(called(http, path=_MESSAGES))


def _runtally(processes: int) -> Opening:
    @asynccontextmanager
    async def opening(model_url: str, directory: Path, budget: Decimal | None) -> AsyncIterator[Gateway]:
        if processes == 1:
            server = running_server(model_url, directory, idle=0, **UNLIMITED)
        else:
            server = running_processes(model_url, directory, processes, UNLIMITED)
        async with server as (http, process):
            if budget is not None:
                limit = {"scope": "account", "window": "day", "usd": str(budget), "mode": "hard"}
                (await http.put("/v1/budgets/all", json=limit)).raise_for_status()
            yield Gateway(called(http), process)

    return opening


@asynccontextmanager
async def _litellm(model_url: str, directory: Path, budget: Decimal | None) -> AsyncIterator[Gateway]:
    # Budgets of its keys need a database of its own; that of a provider is kept by the proxy itself.
    limit = {"anthropic": {"budget_limit": float(budget or 1000), "time_period": "1d"}}
    async with (
        litellm_proxy(model_url, directory, provider_budget_config=limit) as (url, process),
        client(url, "simulated") as http,
    ):
        yield Gateway(called(http, path=_MESSAGES), process)


@asynccontextmanager
async def _claude_gateway(model_url: str, directory: Path, budget: Decimal | None) -> AsyncIterator[Gateway]:
    async with (
        claude_gateway(model_url, directory) as gateway,
        client(gateway.url, gateway.token) as http,
        client(gateway.url, gateway.admin_key) as admin,
    ):
        if budget is not None:
            cents = str(int(budget * 100))
            limit = {"scope": {"type": "user", "user_id": "user"}, "period": "daily", "amount": cents}
            headers = {"x-api-key": gateway.admin_key}
            path = "/v1/organizations/spend_limits"
            (await admin.post(path, json=limit, headers=headers)).raise_for_status()
        yield Gateway(called(http, path=_MESSAGES), gateway.process)


DIRECT: Final = "direct"
GATEWAYS: Final[dict[str, Opening]] = {
    "Runtally": _runtally(1),
    "Runtally, `--processes 2`": _runtally(2),
    "LiteLLM's proxy": _litellm,
    "`claude gateway`": _claude_gateway,
}


async def measure(
    model: ScriptedModel, directory: Path, *, rounds: int, messages: int, at_once: int
) -> dict[str, Gateway]:
    """First bytes and throughput of all that can be started, by name."""
    opened: dict[str, Gateway] = {}
    async with AsyncExitStack() as stack:
        for number, (name, opening) in enumerate({DIRECT: _direct, **GATEWAYS}.items()):
            try:
                gateway = await stack.enter_async_context(opening(model.url, directory / str(number), None))
            except PeerFailed as error:
                print(f"{name}: {error}", file=sys.stderr)
                continue
            await rate(gateway.run, 4 * at_once, at_once=at_once)
            opened[name] = gateway
        for _ in range(rounds):
            for gateway in opened.values():
                await gateway.measure_first()
        for _ in range(max(1, rounds // 10)):
            await model.forget()
            for gateway in opened.values():
                await gateway.measure_rate(messages, at_once=at_once)
    return opened


async def spend(model: ScriptedModel, directory: Path) -> dict[str, Decimal]:
    """What many sessions spend with a budget, in dollars at the list price, by name."""
    spent: dict[str, Decimal] = {}
    for number, (name, opening) in enumerate(GATEWAYS.items()):
        await model.forget()
        try:
            async with opening(model.url, directory / f"budget-{number}", BUDGET) as gateway:
                await asyncio.gather(*(_until_refused(gateway.run, session) for session in range(SESSIONS)))
        except PeerFailed as error:
            print(f"{name}: {error}", file=sys.stderr)
            continue
        spent[name] = cost_of(await model.sent())
    return spent


async def _until_refused(run: Run, session: int) -> None:
    # Without an end a gateway that refuses nothing would be called for ever.
    for _ in range(100):
        try:
            await run(session)
        except RunFailed:
            return


def cost_of(sent: Sent) -> Decimal:
    """The list price of messages, in dollars."""
    prices, now = PriceList(), datetime.now(UTC)
    return sum(
        (
            prices.charge(BilledUsage(MODEL, TokenUsage(input_tokens, output_tokens)), at=now).cost_usd
            for input_tokens, output_tokens in sent.values()
        ),
        Decimal(0),
    )


def report(measured: dict[str, Gateway], spent: dict[str, Decimal]) -> str:
    """Both parts in one table: medians, what each adds to a direct call, and what was spent."""
    direct = statistics.median(measured[DIRECT].first_ms)
    header = (
        "",
        "first byte, ms",
        "added",
        "messages/s",
        "CPU of a message, ms",
        "spent / budget",
        "overshoot",
    )
    return table(header, [_row(name, each, direct, spent.get(name)) for name, each in measured.items()])


def _row(name: str, gateway: Gateway, direct_ms: float, spent: Decimal | None) -> tuple[str, ...]:
    first_ms = statistics.median(gateway.first_ms)
    over = None if spent is None else max(Decimal(0), spent - BUDGET) / BUDGET
    return (
        name,
        f"{first_ms:.1f}",
        f"{first_ms - direct_ms:+.1f}",
        f"{statistics.median(gateway.rates):.0f}",
        "-" if gateway.process is None else f"{statistics.median(gateway.cpus_ms):.1f}",
        "-" if spent is None else f"{spent / BUDGET:.2f}",
        "-" if over is None else f"{over:.0%}",
    )


async def main(*, rounds: int, messages: int, at_once: int) -> None:
    """Run and print."""
    with tempfile.TemporaryDirectory(prefix="runtally-bench-") as name:
        async with scripted_model() as model:
            measured = await measure(model, Path(name), rounds=rounds, messages=messages, at_once=at_once)
            spent = await spend(model, Path(name))
    print(
        f"On {os.cpu_count()} cores; {rounds} messages one at a time, then {at_once} at a time; "
        f"{SESSIONS} sessions with a budget of {BUDGET} dollars\n"
    )
    print(report(measured, spent))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=60, help="one at a time (default: %(default)s)")
    parser.add_argument("--messages", type=int, default=400, help="in a round (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=16, help="(default: %(default)s)")
    given = parser.parse_args()
    asyncio.run(main(rounds=given.rounds, messages=given.messages, at_once=given.at_once))
