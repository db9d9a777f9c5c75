"""Breaks parts of a fleet while it works, and checks what its clients were promised.

Every round starts runs on two API servers and two workers and injects one fault. Then each reader, which
reconnects with the position of its last event, must have got exactly one end, the one that the database has;
the next turn of each conversation must know the answer that was given; a worker that stood still and has lost
its runs must make no further call for them. In the end every message that a client saw is billed once, no
less than it saw, and every run has ended; except messages that began in the second before their machine was
lost with its disk. Called by `python -m benchmarks.chaos --fleet --rounds 200`, with `--temporal` for
Temporal as the dispatcher, and faults of it.
"""

import asyncio
import contextlib
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import httpx_sse

from app.auth.keys import mint_key
from app.platform.db import Database
from app.simulator.script import ApiRequest, Reply, Text
from app.simulator.server import Simulator
from benchmarks.fleet_faults import FAULTS, TEMPORAL_FAULTS, Fault, Findings, Fleet, run_of
from benchmarks.fleet_members import LEASE_S, Member, Services, members

KEPT, ONCE = "messages:kept", "messages:once"
_KEPT_RUNS, _OTHER_RUNS = 5, 3
_READER_S = 120.0
_STORED_S = 15.0
_RECORDED_S = 1.0
"""What a lost machine knew is in the database half a second later, or a little more."""
_NEXT_TURN = "What have you answered?"


@dataclass(slots=True)
class Reading:
    """What one client has got of one run, over all its connections."""

    run_id: str
    state_key: str | None
    ids: list[int] = field(default_factory=list)
    ends: list[str | None] = field(default_factory=list)
    """The errors of its ends; None for a successful one."""
    answer: str | None = None
    words: Counter[str] = field(default_factory=Counter)
    """How many words it has got of each message."""
    error: str | None = None


class Model:
    """Answers at random speed; what it is told of the run is in the prompt."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def __call__(self, _request: ApiRequest) -> Reply:
        """An answer that is not like any other."""
        count = self._rng.choice([20, 100, 300])
        words = " ".join(f"w{self._rng.getrandbits(40):x}" for _ in range(count))
        usage = {"input_tokens": self._rng.randint(1, 5000), "output_tokens": 1}
        return Reply(
            [Text(words)],
            usage=usage,
            final_usage={"output_tokens": self._rng.randint(count, 900)},
            delta_delay_s=self._rng.choice([0.01, 0.03, 0.05]),
        )


async def run_rounds(
    rounds: int, *, seed: int, with_temporal: bool, progress: Callable[[str], None]
) -> Findings:
    """Run all rounds and evaluate."""
    rng, findings, key = random.Random(seed), Findings(), mint_key()  # noqa: S311 - nothing secret
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="runtally-chaos-")))
        os.chmod(directory, 0o755)  # noqa: PTH101, S103 - PostgreSQL may run as another user
        services = await Services.start(directory, with_temporal=with_temporal)
        stack.push_async_callback(services.stop)
        database = await Database.open(services.door.url)
        await database.migrate()
        await database.aclose()
        simulator = await stack.enter_async_context(Simulator(Model(rng)))
        fleet = Fleet(services, simulator, members(services, simulator.url, key), key, rng, findings)
        for member in fleet.all:
            stack.push_async_callback(member.stop)
        faults = TEMPORAL_FAULTS if with_temporal else FAULTS
        names = [list(faults)[number % len(faults)] for number in range(rounds)]
        rng.shuffle(names)
        for number, name in enumerate(names):
            await fleet.start()
            known = len(findings.wrong)
            await _round(fleet, number, name, faults[name])
            found = [f"    {problem}" for problem in findings.wrong[known:]]
            progress("\n".join([f"{number + 1}/{rounds} {name}: {findings.runs} runs", *found]))
        await _judge(fleet)
    return findings


async def _round(fleet: Fleet, number: int, name: str, fault: Fault) -> None:
    fleet.findings.faults[name] += 1
    async with fleet.client() as http:
        keys = [f"chat-{number}-{each}" for each in range(_KEPT_RUNS)] + [None] * _OTHER_RUNS
        readings = [Reading(f"run-{number}-{each}", key) for each, key in enumerate(keys)]
        following = [asyncio.create_task(_client(fleet, http, reading)) for reading in readings]
        await asyncio.sleep(fleet.rng.uniform(0.2, 2))
        await fault(fleet)
        await fleet.start()
        await asyncio.gather(*following)
        found = await asyncio.gather(*(_problems(fleet, http, reading) for reading in readings))
        fleet.findings.wrong += [f"{name}: {problem}" for problems in found for problem in problems]
        for reading in readings:
            fleet.findings.words += reading.words
        fleet.findings.runs += len(readings)


async def _client(fleet: Fleet, http: httpx.AsyncClient, reading: Reading) -> None:
    """Start a run and follow it, whatever happens to the servers."""
    try:
        async with asyncio.timeout(_READER_S):
            await _repeated(fleet, lambda api: _post(http, api, reading, reading.run_id, "Go on."))
            await _repeated(fleet, lambda api: _follow(http, api, reading))
    except TimeoutError:
        reading.error = "its reader has waited in vain"


async def _repeated(fleet: Fleet, call: Callable[[Member], Awaitable[bool]]) -> None:
    while True:
        with contextlib.suppress(httpx.HTTPError, httpx_sse.SSEError):
            if await call(fleet.rng.choice(fleet.apis)):
                return
        await asyncio.sleep(0.1)


async def _post(http: httpx.AsyncClient, api: Member, reading: Reading, run_id: str, text: str) -> bool:
    body: dict[str, Any] = {
        "runId": run_id,
        "graphId": KEPT if reading.state_key else ONCE,
        "messages": [{"role": "user", "content": f"{text} [{run_id}]"}],
    }
    if reading.state_key:
        body["stateKey"] = reading.state_key
    return (await http.post(f"{api.url}/v1/runs", json=body)).status_code in {200, 202}


async def _follow(http: httpx.AsyncClient, api: Member, reading: Reading) -> bool:
    headers = {"Last-Event-ID": str(reading.ids[-1])} if reading.ids else {}
    url = f"{api.url}/v1/runs/{reading.run_id}/events"
    error: str | None = None
    async with httpx_sse.aconnect_sse(http, "GET", url, headers=headers) as source:
        async for event in source.aiter_sse():
            if not event.data:
                continue
            reading.ids.append(int(event.id))
            data = json.loads(event.data)
            match event.event:
                case "text_delta":
                    reading.words[data["messageId"]] += len(data["delta"].split())
                case "assistant_final":
                    reading.answer = data["content"]
                case "error":
                    error = data["error"]
                case "done":
                    reading.ends.append(error)
                    return True
                case _:
                    pass
    return False


async def _problems(fleet: Fleet, http: httpx.AsyncClient, reading: Reading) -> list[str]:
    """What is wrong with one run that its reader has followed to its end."""
    if reading.error:
        return [f"{reading.run_id}: {reading.error}"]
    run = await _stored(fleet, http, reading.run_id)
    fleet.findings.resumed += run["attempt"] > 0
    found = []
    if reading.ids != sorted(set(reading.ids)):
        found.append(f"{reading.run_id}: events twice or out of order")
    if len(reading.ends) != 1 or (run["final"] or {}).get("error") != reading.ends[0]:
        found.append(f"{reading.run_id}: read {reading.ends}, stored {run['status']} {run['final']}")
    if reading.answer is not None and (run["final"] or {}).get("content") != reading.answer:
        found.append(f"{reading.run_id}: another answer is stored than was given")
    if reading.answer is not None and reading.state_key:
        next_id = f"{reading.run_id}-next"
        await _repeated(fleet, lambda api: _post(http, api, reading, next_id, _NEXT_TURN))
        following = Reading(next_id, reading.state_key)
        await _client_of(fleet, http, following)
        fleet.findings.words += following.words
        sent = [request for request in fleet.simulator.requests if run_of(request) == next_id]
        if not sent or reading.answer not in str(sent[-1].messages):
            found.append(f"{next_id}: does not know the answer that was given")
    return found


async def _stored(fleet: Fleet, http: httpx.AsyncClient, run_id: str) -> Any:
    """The run as it is stored: a moment later than its readers get its end, if the database was away."""
    deadline = time.monotonic() + _STORED_S
    while True:
        run = (await http.get(f"{fleet.apis[0].url}/v1/runs/{run_id}")).json()
        if run["final"] is not None or time.monotonic() > deadline:
            return run
        await asyncio.sleep(0.1)


async def _client_of(fleet: Fleet, http: httpx.AsyncClient, reading: Reading) -> None:
    async with asyncio.timeout(_READER_S):
        await _repeated(fleet, lambda api: _follow(http, api, reading))


async def _judge(fleet: Fleet) -> None:
    """Compare the books with what the clients saw and with what the provider has sent."""
    findings = fleet.findings
    connection = await asyncpg.connect(fleet.services.door.url)
    async with asyncio.timeout(_READER_S):
        while await connection.fetchval("SELECT count(*) FROM runs WHERE ended_at IS NULL"):
            await asyncio.sleep(0.2)
    await asyncio.sleep(2 * LEASE_S)
    rows = await connection.fetch(
        "SELECT usage_unit_id, sum(output_tokens) AS tokens FROM charge_receipts GROUP BY 1"
    )
    fenced = {row[0] for row in await connection.fetch("SELECT usage_unit_id FROM fenced_receipts")}
    twice = await connection.fetch(
        "SELECT usage_unit_id FROM charge_receipts WHERE note IS NULL GROUP BY 1 HAVING count(*) > 1"
    )
    debits = await connection.fetchval("SELECT -sum(credits) FROM credit_ledger WHERE kind = 'debit'")
    charged = await connection.fetchval("SELECT sum(charged_credits) FROM charge_receipts")
    reserved = await connection.fetchval("SELECT sum(reserved) FROM credit_accounts")
    await connection.close()
    tokens = {row["usage_unit_id"]: row["tokens"] for row in rows}
    findings.wrong += [f"{row[0]}: more than one receipt" for row in twice]
    findings.wrong += [
        f"{message}: shown by an attempt that was over" for message in fenced & set(findings.words)
    ]
    _compare_charges(fleet, tokens, besides=fenced)
    if debits != charged:
        findings.wrong.append(f"charged {charged}, debited {debits}")
    if reserved:
        findings.wrong.append(f"{reserved} credits stay reserved")


def _compare_charges(fleet: Fleet, tokens: Mapping[str, int], *, besides: set[str]) -> None:
    findings = fleet.findings
    for message, words in findings.words.items():
        if message in tokens:
            if tokens[message] < words:
                findings.wrong.append(f"{message}: {words} words shown, {tokens[message]} tokens charged")
        elif _has_just_begun(fleet, message):
            findings.unrecorded += 1
        elif message not in besides:
            findings.wrong.append(f"{message}: shown and not charged")


def _has_just_begun(fleet: Fleet, message: str) -> bool:
    """Whether a message began too shortly before a loss to be in the database (see decision 0050)."""
    began = next(each.first_byte_at for each in fleet.simulator.sent if each.message_id == message)
    return began is not None and any(0 <= loss - began <= _RECORDED_S for loss in fleet.findings.losses)


def print_rounds(rounds: int, *, seed: int, with_temporal: bool) -> int:
    """Print the result; returns 1 if a promise was broken."""
    started = time.monotonic()
    findings = asyncio.run(
        run_rounds(
            rounds,
            seed=seed,
            with_temporal=with_temporal,
            progress=lambda line: print(line, file=sys.stderr, flush=True),
        )
    )
    lines = [
        f"seed     {seed}, {rounds} rounds in {time.monotonic() - started:.0f} s",
        f"faults   {', '.join(f'{count} x {name}' for name, count in sorted(findings.faults.items()))}",
        f"runs     {findings.runs}, {findings.resumed} of them resumed; {len(findings.words)} messages shown",
        f"absent   {findings.unrecorded} messages that had just begun when their machine was lost",
        f"wrong    {len(findings.wrong)}",
        *(f"         {problem}" for problem in findings.wrong[:40]),
    ]
    print("\n".join(lines))
    return 1 if findings.wrong else 0
