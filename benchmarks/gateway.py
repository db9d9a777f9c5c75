"""The overhead of the gateway: streamed responses through it compared with direct ones.

The scripted provider and the gateway are separate processes, as in production, and the client is httpx with
open connections in both cases. The gateway's channel journals every message before its first byte
passes, as in a run. Direct and proxied requests alternate.

    .venv/bin/python -m benchmarks.gateway --rounds 200
"""

import argparse
import asyncio
import contextlib
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

import httpx

from app.billing.prices.price_list import PriceList
from app.billing.receipts.journal import Journal
from app.gateway.answer_usage import MessageUsage
from app.gateway.call import CallCost, MeteringHooks, Refusal
from app.gateway.channel import ChannelLimits
from app.gateway.proxy import Gateway
from app.gateway.upstream import MESSAGES, Upstream
from app.ids import AccountId, ApiKeyId, RunId, RunKey, new_uuid
from app.simulator.script import ApiRequest, Reply, Text
from app.simulator.server import Simulator
from app.usage.records import Attribution, TokenUsage, UsageFact

MODEL = "claude-sonnet-5-5"
READY_S = 30.0
LASTS_S = 3600.0
SMALL, BURST, STREAMS, OF_EACH = 10, 2000, 20, 200
"""Deltas of a small response and of a burst; number of concurrent streams and of deltas in each."""

Server: TypeAlias = Callable[..., Coroutine[Any, Any, None]]


@dataclass(frozen=True, slots=True)
class Timing:
    """One streamed response, in milliseconds from the request."""

    first_ms: float
    end_ms: float
    size: int


Pair: TypeAlias = tuple[list[Timing], list[Timing]]
"""Direct, and through the gateway."""


def words(request: ApiRequest) -> Reply:
    """Answers with as many words as the prompt requests."""
    return Reply([Text("word " * int(request.last_text))])


async def provider(ready: Connection) -> None:
    """The scripted provider; prints its URL."""
    async with Simulator(words) as simulator:
        ready.send(simulator.url)
        await asyncio.sleep(LASTS_S)


async def gateway(ready: Connection, base_url: str, directory: Path) -> None:
    """The gateway and the channel of one run; prints the channel's URL."""
    journal = Journal(directory, new_uuid())
    limits = ChannelLimits(deadline=asyncio.get_running_loop().time() + LASTS_S)
    async with Upstream(base_url=base_url, api_key="simulated") as upstream, Gateway(upstream) as door:
        ready.send(door.open_channel("run-1", limits, _hooks(journal)).url)
        await asyncio.sleep(LASTS_S)


def _hooks(journal: Journal) -> MeteringHooks:  # noqa: C901 - one function for each hook
    prices = PriceList()
    run = RunKey(AccountId(new_uuid()), RunId("run-1"))
    attribution = Attribution(ApiKeyId(new_uuid()), "claude_agents:assistant", None)

    def fact(message: MessageUsage) -> UsageFact:
        return UsageFact(
            run=run,
            attempt=0,
            message_id=message.message_id,
            attribution=attribution,
            model=message.model,
            usage=message.usage,
            executor_type="claude_sdk",
            at=message.at,
        )

    def on_usage(message: MessageUsage) -> None:
        journal.complete_message(fact(message))
        journal.acknowledge([fact(message).key])

    def on_start(message: MessageUsage, instead_of: MessageUsage | None) -> None:
        journal.start_message(fact(message), replaces=None if instead_of is None else fact(instead_of).key)

    def on_progress(message: MessageUsage) -> None:
        journal.update_message(fact(message))

    async def always_covered(_under_way: CallCost) -> Refusal | None:
        return None

    def cost_of(message: MessageUsage) -> Decimal:
        return most_cost_of(message.model, message.usage, None)

    def most_cost_of(model: str, usage: TokenUsage, speed: str | None) -> Decimal:
        return prices.most(model, usage, at=datetime.now(UTC), speed=speed)

    def on_void(message: MessageUsage) -> None:
        journal.acknowledge([fact(message).key])

    return MeteringHooks(cost_of, most_cost_of, always_covered, on_start, on_progress, on_usage, on_void)


def _serve(server: Server, *given: Any) -> None:
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(server(*given))


@contextmanager
def running(server: Server, *given: Any) -> Iterator[str]:
    """A server in a separate process; yields the URL it prints."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(server, theirs, *given), daemon=True)
    process.start()
    try:
        if not ours.poll(READY_S):
            message = f"{server.__name__} does not start"
            raise TimeoutError(message)
        yield ours.recv()
    finally:
        process.terminate()
        process.join()


async def timed_request(http: httpx.AsyncClient, url: str, deltas: int) -> Timing:
    """One response with so many deltas."""
    body = {
        "model": MODEL,
        "max_tokens": 64_000,
        "stream": True,
        "messages": [{"role": "user", "content": str(deltas)}],
    }
    first, size = 0.0, 0
    began = time.perf_counter()
    async with http.stream("POST", url + MESSAGES, json=body) as response:
        response.raise_for_status()
        async for chunk in response.aiter_raw():
            first = first or time.perf_counter()
            size += len(chunk)
    return Timing((first - began) * 1000, (time.perf_counter() - began) * 1000, size)


async def at_once(http: httpx.AsyncClient, url: str) -> Timing:
    """Concurrent responses: the median first byte, and the end of the last."""
    answers = await asyncio.gather(*(timed_request(http, url, OF_EACH) for _ in range(STREAMS)))
    return Timing(
        statistics.median(answer.first_ms for answer in answers),
        max(answer.end_ms for answer in answers),
        sum(answer.size for answer in answers),
    )


async def compared(work: Callable[[str], Awaitable[Timing]], urls: Sequence[str], rounds: int) -> Pair:
    """Alternate both variants; raises `AssertionError` if bytes were lost."""
    direct, through = [], []
    for number in range(rounds + 1):
        one, other = await work(urls[0]), await work(urls[1])
        if one.size != other.size:
            message = f"{one.size} bytes directly, {other.size} through the gateway"
            raise AssertionError(message)
        if number:
            # The first round opened the connections.
            direct.append(one)
            through.append(other)
    return direct, through


def show(title: str, direct: Sequence[float], through: Sequence[float]) -> None:
    """One line of the table."""
    a, b = statistics.median(direct), statistics.median(through)
    print(f"{title:38}{a:10.2f}{b:10.2f}{b - a:+10.2f}{b / a:8.2f}")


async def main(*, rounds: int, bursts: int) -> None:
    """Run and print."""
    with (
        tempfile.TemporaryDirectory(prefix="runtally-bench-") as directory,
        running(provider) as direct_url,
        running(gateway, direct_url, Path(directory)) as channel_url,
    ):
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=2 * STREAMS)
        async with httpx.AsyncClient(trust_env=False, timeout=60, limits=limits) as http:
            urls = (direct_url, channel_url)
            small = await compared(lambda url: timed_request(http, url, SMALL), urls, rounds)
            burst = await compared(lambda url: timed_request(http, url, BURST), urls, bursts)
            many = await compared(lambda url: at_once(http, url), urls, bursts)
    print(f"{rounds} small answers, {bursts} bursts, interleaved; medians in ms")
    print(f"{'':38}{'direct':>10}{'gateway':>10}{'added':>10}{'ratio':>8}")
    lines: tuple[tuple[str, Pair, Callable[[Timing], float]], ...] = (
        ("first byte of a small answer", small, lambda answer: answer.first_ms),
        (f"end of a small answer, {SMALL} deltas", small, lambda answer: answer.end_ms),
        (f"a burst of {BURST:,} deltas", burst, lambda answer: answer.end_ms),
        (f"first byte among {STREAMS} streams", many, lambda answer: answer.first_ms),
        (f"{STREAMS} streams of {OF_EACH} deltas at once", many, lambda answer: answer.end_ms),
    )
    for title, pair, value in lines:
        show(title, *([value(answer) for answer in answers] for answers in pair))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200, help="small answers (default: %(default)s)")
    parser.add_argument("--bursts", type=int, default=15, help="bursts, of both kinds (default: %(default)s)")
    asyncio.run(main(**vars(parser.parse_args())))
