"""Kills the server, stops PostgreSQL, fills the disk, and compares the receipts with the provider's log.

Every round starts runs and injects a fault while they execute: `kill -9` of the server, PostgreSQL stopped
and started, both, or a journal that cannot be written. Of several processes, any one is killed, or the
command that keeps them. In the end every message the scripted provider sent must have exactly one receipt.
One may be missing only if its first byte left the provider within 150 ms before a kill, so that no client can
have read it. Every message a client saw has a receipt without exception, which charges no less output than
the client saw, debits equal charges, and every entry is in its account's hash chain.

    .venv/bin/python -m benchmarks.chaos --rounds 200
    .venv/bin/python -m benchmarks.chaos --rounds 200 --processes 3
    .venv/bin/python -m benchmarks.chaos --rounds 200 --fleet
    .venv/bin/python -m benchmarks.chaos --rounds 50 --temporal
"""

import argparse
import asyncio
import contextlib
import os
import random
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import httpx
import httpx_sse
import psutil

from app.auth.keys import mint_key
from app.billing.chain.verification import verify
from app.billing.receipts.conflicts import CONFLICT
from app.platform.db import Database
from app.platform.embedded.ports import free_port
from app.simulator.script import Answer, ApiRequest, Reply, Text, ToolUse
from app.simulator.server import RecordedMessage, Simulator
from benchmarks.door import Door
from benchmarks.fleet_chaos import print_rounds
from tests.e2e.stories import arguments_of

RUNS_A_ROUND = 4
READY_S = 60.0
UNREAD_S = 0.15
"""Nobody can have read what left the provider this shortly before a kill."""

MEMBER = "app.cli.processes.member"
FAULTS = ("kill", "database", "kill and database", "full disk", "full disk and kill")
CLOCK = "mcp__runtally__core__get_current_time"


@dataclass(slots=True)
class Observations:
    """The observations of all rounds."""

    kills: list[float] = field(default_factory=list)
    shown: set[str] = field(default_factory=set)
    words: Counter[str] = field(default_factory=Counter)
    """The words that a client has seen of each message; the scripted provider counts one token a word.
    Without those of rounds with a full disk, where growth cannot be recorded."""
    strikes: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result; `wrong` is empty if no guarantee was broken."""

    sent: int
    receipts: int
    unanswered: int
    """Receipts of prompts whose answer nobody has read."""
    by_basis: dict[str, int]
    absent: int
    """Messages without a receipt, all of them cut off unread by a kill."""
    wrong: list[str]


class Model:
    """A model that answers at random speed and sometimes calls a tool."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def __call__(self, request: ApiRequest) -> Answer:
        """Answer, or call a tool and then answer."""
        longest = self._rng.choice([40, 400])
        words = " ".join(f"word{number}" for number in range(self._rng.randint(1, longest)))
        delay_s = self._rng.choice([0.0, 0.01, 0.03])
        usage = {"input_tokens": self._rng.randint(1, 5000), "output_tokens": 1}
        final = {"output_tokens": self._rng.randint(2, 900)}
        calls = [ToolUse(CLOCK)] if len(request.messages) < 5 and self._rng.random() < 0.6 else []  # noqa: PLR2004
        return Reply([Text(words), *calls], usage=usage, final_usage=final, delta_delay_s=delay_s)


async def run_rounds(rounds: int, *, seed: int, processes: int = 1) -> tuple[Observations, Verdict]:
    """Run all rounds with so many server processes, recover, and evaluate."""
    rng = random.Random(seed)  # noqa: S311 - nothing secret
    happened = Observations()
    key = mint_key()
    async with contextlib.AsyncExitStack() as closing:
        directory = Path(closing.enter_context(tempfile.TemporaryDirectory(prefix="runtally-chaos-")))
        os.chmod(directory, 0o755)  # noqa: PTH101, S103 - PostgreSQL may run as another user
        door = Door(directory / "postgres")
        await door.start()
        closing.push_async_callback(door.stop)
        database = await Database.open(door.url)
        await database.migrate()
        await database.aclose()
        async with Simulator(Model(rng)) as simulator:
            environment = _environment(directory, door.url, simulator.url, key)
            for number, strike in enumerate(_strikes(rounds, rng)):
                happened.strikes[strike] += 1
                async with _server(environment, processes) as (server, http):
                    await _round(strike, server, http, door, rng=rng, happened=happened)
                _progress(number + 1, rounds, happened)
            async with _server(environment, processes):
                await _quiet(door.url)
            return happened, await _judge(door.url, simulator, happened)


def _strikes(rounds: int, rng: random.Random) -> list[str]:
    """As many faults of each kind as requested, in random order."""
    strikes = [FAULTS[number % len(FAULTS)] for number in range(rounds)]
    rng.shuffle(strikes)
    return strikes


async def _round(
    strike: str,
    server: psutil.Process,
    http: httpx.AsyncClient,
    door: Door,
    *,
    rng: random.Random,
    happened: Observations,
) -> None:
    full, shown_before = "full disk" in strike, len(happened.shown)
    readers = [asyncio.create_task(_read(http, happened, full=full)) for _ in range(RUNS_A_ROUND)]
    # Runs of a busy machine may not have begun for seconds, and nothing could be lost.
    while len(happened.shown) == shown_before and not all(reader.done() for reader in readers):
        await asyncio.sleep(0.01)
    await asyncio.sleep(rng.uniform(0.0, 2.0))
    if full:
        _fill_the_disk(server)
        await asyncio.sleep(rng.uniform(0.0, 0.5))
    if "database" in strike:
        await door.stop()
        await asyncio.sleep(rng.uniform(0.0, 0.8))
    if "kill" in strike:
        happened.kills.append(time.monotonic())
        rng.choice([server, *_members(server)]).kill()
    if "database" in strike:
        await door.start()
    await asyncio.wait(readers)


def _members(server: psutil.Process) -> list[psutil.Process]:
    """The processes that a command with several of them keeps."""
    return [child for child in server.children() if MEMBER in arguments_of(child)]


async def _read(http: httpx.AsyncClient, happened: Observations, *, full: bool) -> None:
    """A client that remembers which messages it has seen."""
    body = {
        "graphId": "claude_agents:assistant",
        "messages": [{"role": "user", "content": "go"}],
        "limits": {"timeoutS": 20},
    }
    with contextlib.suppress(httpx.HTTPError, httpx_sse.SSEError):
        async with httpx_sse.aconnect_sse(http, "POST", "/v1/runs/stream", json=body) as source:
            async for event in source.aiter_sse():
                if event.event == "text_delta":
                    delta = event.json()
                    happened.shown.add(delta["messageId"])
                    happened.words[delta["messageId"]] += 0 if full else len(delta["delta"].split())


def _fill_the_disk(server: psutil.Process) -> None:
    """Make every write of the server fail."""
    for process in (server, *_members(server)):
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))


async def _quiet(database_url: str) -> None:
    """Wait until every run has ended and no more receipts arrive."""
    connection = await asyncpg.connect(database_url)
    seen = -1
    while True:
        going = await connection.fetchval("SELECT count(*) FROM runs WHERE ended_at IS NULL")
        count = await connection.fetchval("SELECT count(*) FROM charge_receipts")
        if going == 0 and count == seen:
            break
        seen = count
        await asyncio.sleep(2)
    await connection.close()


async def _broken_chains(database_url: str) -> tuple[str, ...]:
    database = await Database.open(database_url)
    try:
        return (await verify(database, {})).findings
    finally:
        await database.aclose()


async def _judge(database_url: str, simulator: Simulator, happened: Observations) -> Verdict:
    connection = await asyncpg.connect(database_url)
    rows = await connection.fetch("SELECT * FROM charge_receipts")
    debits = await connection.fetchval("SELECT -sum(credits) FROM credit_ledger WHERE kind = 'debit'")
    spent = await connection.fetchval("SELECT sum(spent) FROM credit_accounts")
    reserved = await connection.fetchval("SELECT sum(reserved) FROM credit_accounts")
    rolled = await connection.fetchval("SELECT sum(charged_credits) FROM usage_rollups")
    await connection.close()
    # The receipt of a prompt that was sent and whose answer nobody has read.
    first = [row for row in rows if row["note"] != CONFLICT]
    unanswered = Counter(row["source_reference"] for row in first if row["note"])
    receipts = Counter(row["usage_unit_id"] for row in first if not row["note"])
    charged = sum(row["charged_credits"] for row in rows)
    known = {message.message_id: message for message in simulator.sent if message.first_byte_at is not None}
    wrong = [f"{name}: {count} receipts" for name, count in (receipts + unanswered).items() if count > 1]
    if len(unanswered) > len(simulator.requests) - len(receipts):
        wrong.append(f"{len(first)} receipts of {len(simulator.requests)} requests")
    wrong += [f"{name}: a receipt of an unknown message" for name in receipts if name not in known]
    wrong += [f"{name}: shown and not charged" for name in happened.shown if name not in receipts]
    wrong += [
        f"{name}: charged {row['output_tokens']} tokens, shown {happened.words[name]} words"
        for row in rows
        if row["basis"] == "partial" and row["output_tokens"] < happened.words[name := row["usage_unit_id"]]
    ]
    absent = [message for name, message in known.items() if name not in receipts]
    lost = [message for message in absent if not _unread(message, happened)]
    if len(lost) > len(unanswered):
        wrong += [f"{message.message_id}: sent and not charged" for message in lost]
    wrong += [problem for row in rows if (problem := _difference(row, known.get(row["usage_unit_id"])))]
    if not charged == debits == spent == rolled:
        wrong.append(f"charged {charged}, debited {debits}, spent {spent}, rolled up {rolled}")
    if reserved:
        wrong.append(f"{reserved} credits stay reserved")
    wrong += await _broken_chains(database_url)
    by_basis = dict(Counter(row["basis"] for row in rows))
    return Verdict(len(known), len(rows), len(unanswered), by_basis, len(absent), wrong)


def _unread(message: RecordedMessage, happened: Observations) -> bool:
    first = message.first_byte_at or 0.0
    return any(first - UNREAD_S <= kill and kill - first <= UNREAD_S for kill in happened.kills)


def _difference(row: asyncpg.Record, message: RecordedMessage | None) -> str | None:
    if message is None:
        return None
    whole = row["basis"] in {"final", "recovered"}
    usage = message.final_usage if whole else message.start_usage
    if usage is None:
        return f"{message.message_id}: charged as whole, never sent whole"
    expected = [usage["input_tokens"], usage["output_tokens"] if whole else row["output_tokens"]]
    charged = [row["input_tokens"], row["output_tokens"]]
    return None if charged == expected else f"{message.message_id}: charged {charged}, sent {expected}"


@asynccontextmanager
async def _server(
    environment: dict[str, str], processes: int
) -> AsyncIterator[tuple[psutil.Process, httpx.AsyncClient]]:
    port = free_port()
    several, wanted = (("--processes", str(processes)), processes) if processes > 1 else ((), 0)
    command = [sys.executable, "-m", "app", "serve", "--port", str(port), *several]
    log = Path(environment["RUNTALLY_DATA_DIR"]).parent / "server.log"
    with log.open("ab") as output:
        # Through a pipe: the full disk must not be that of the log.
        keeper = psutil.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=output)
    server = psutil.Popen(command, env=environment, stdout=keeper.stdin, stderr=keeper.stdin)
    members: list[psutil.Process] = []
    key = environment["RUNTALLY_BOOTSTRAP_KEY"]
    try:
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {key}"},
            trust_env=False,
            timeout=30,
        ) as http:
            async with asyncio.timeout(READY_S):
                while len(members) < wanted or not await _is_ready(http):
                    if server.poll() is not None:
                        message = f"the server ended: {log.read_text()[-2000:]}"
                        raise RuntimeError(message)
                    members = _members(server)
                    await asyncio.sleep(0.05)
            yield server, http
    finally:
        if server.poll() is None:
            server.terminate()
        await asyncio.to_thread(server.wait)
        # Those of a command that was killed end on their own.
        await asyncio.to_thread(psutil.wait_procs, members)
        keeper.communicate()


async def _is_ready(http: httpx.AsyncClient) -> bool:
    try:
        return (await http.get("/readyz")).is_success
    except httpx.HTTPError:
        return False


def _environment(directory: Path, database_url: str, provider_url: str, key: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(directory),
        "DATABASE_URL": database_url,
        "RUNTALLY_DATA_DIR": str(directory / "data"),
        "ANTHROPIC_API_KEY": f"sk-{secrets.token_hex(8)}",
        "ANTHROPIC_BASE_URL": provider_url,
        "RUNTALLY_BOOTSTRAP_KEY": key,
    }


def _progress(done: int, rounds: int, happened: Observations) -> None:
    if sys.stderr.isatty() or done % 10 == 0:
        print(f"{done}/{rounds} rounds, {len(happened.shown)} messages shown", file=sys.stderr)


def main() -> int:
    """Print the result; exit with 1 if a guarantee was broken."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randint(0, 10**6))
    parser.add_argument("--processes", type=int, default=1, help="of the command (default: %(default)s)")
    parser.add_argument("--fleet", action="store_true", help="two API servers and two workers")
    parser.add_argument("--temporal", action="store_true", help="the same with Temporal as the dispatcher")
    chosen = parser.parse_args()
    started = time.monotonic()
    if chosen.fleet or chosen.temporal:
        return print_rounds(chosen.rounds, seed=chosen.seed, with_temporal=chosen.temporal)
    happened, verdict = asyncio.run(run_rounds(chosen.rounds, seed=chosen.seed, processes=chosen.processes))
    lines = [
        f"seed      {chosen.seed}, {chosen.rounds} rounds in {time.monotonic() - started:.0f} s",
        f"strikes   {', '.join(f'{count} x {name}' for name, count in sorted(happened.strikes.items()))}",
        f"messages  {verdict.sent} sent, {len(happened.shown)} shown to clients",
        f"receipts  {verdict.receipts}: {', '.join(f'{n} {b}' for b, n in sorted(verdict.by_basis.items()))}",
        f"          {verdict.unanswered} of them for a prompt that was sent and not answered",
        f"absent    {verdict.absent}, each cut off unread; its prompt is charged if that was noted",
        f"wrong     {len(verdict.wrong)}",
        *(f"          {problem}" for problem in verdict.wrong[:20]),
    ]
    print("\n".join(lines))
    return 1 if verdict.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
