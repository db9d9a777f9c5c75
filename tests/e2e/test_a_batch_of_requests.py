"""Requests in a batch, with each executor, through the death of a server, on two of them."""

import asyncio
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.simulator.script import ApiRequest, Hold, Reply, Text
from app.simulator.server import Simulator
from runtally import Batch, Client
from tests.batches import a_line, created, ended, joined, results
from tests.e2e.agents import CLAUDE, MESSAGES
from tests.e2e.servers import a_server
from tests.e2e.stories import KEY, WorldOf, until
from tests.e2e.test_a_server_dies_and_comes_back import words_read
from tests.e2e.test_the_commands import command, runtally
from tests.e2e.the_bill import bill, wire
from tests.integration.gateway_seam import FIRST_DELTA

SIZES = {MESSAGES: 24, CLAUDE: 5}
"""A run of the CLI costs a second of CPU."""


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(f"You said {request.last_text}.")])


def lines(count: int, graph: str, **fields: Any) -> list[dict[str, Any]]:
    return [a_line(f"item-{number}", f"number {number}", graph=graph, **fields) for number in range(count)]


async def receipts(http: httpx.AsyncClient) -> list[dict[str, Any]]:
    """All of the account."""
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = (await http.get("/v1/receipts", params={"limit": 200, **cursor})).json()
        found += page["items"]
        if page["nextCursor"] is None:
            return found
        cursor = {"cursor": page["nextCursor"]}


@pytest.mark.parametrize("provider", [MESSAGES, pytest.param(CLAUDE, marks=pytest.mark.long)])
async def test_every_line_has_its_result_and_the_bill_is_the_wires(world_of: WorldOf, provider: str) -> None:
    world, count = await world_of(echo, RUNTALLY_MAX_CONCURRENT_RUNS=12), SIZES[provider]

    path = await created(world.http, lines(count, f"{provider}:assistant"), parallelism=8)
    batch = await ended(world.http, path)
    found = await results(world.http, path)
    bill_of_all = await receipts(world.http)

    assert [each["customId"] for each in found] == [f"item-{number}" for number in range(count)]
    assert [each["result"]["content"] for each in found] == [f"You said number {n}." for n in range(count)]
    assert (batch["status"], batch["counts"]["succeeded"]) == ("completed", count)
    assert bill(bill_of_all) == wire(world.simulator.sent)
    assert len(bill_of_all) == count
    cost = sum(Decimal(receipt["costUsd"]) for receipt in bill_of_all)
    assert Decimal(batch["costUsd"]) == cost == sum(Decimal(each["costUsd"]) for each in found)


async def test_a_killed_server_goes_on_with_its_batch_and_repeats_nothing(migrated_path: Path) -> None:
    hold = Hold(index=FIRST_DELTA + 1)

    def respond(request: ApiRequest) -> Reply:
        is_last = len(simulator.requests) > 10
        return Reply([Text(f"You said {request.last_text}.")], hold=hold if is_last else None)

    count = 24
    async with Simulator(respond) as simulator:
        async with a_server(migrated_path, simulator.url, RUNTALLY_LEASE_S="2") as (server, http):
            path = await created(http, lines(count, f"{MESSAGES}:assistant"), parallelism=4)
            # Ten were answered, four have a part of their answers: no run is about to make its request.
            await until(lambda: len(simulator.requests) == 14)
            for run in (await http.get("/v1/runs", params={"status": "running"})).json()["items"]:
                await words_read(http, run["runId"], 1)
            server.kill()
            await asyncio.to_thread(server.wait)
        hold.until.set()

        async with a_server(migrated_path, simulator.url) as (_, http):
            batch = await ended(http, path)
            found = await results(http, path)
            runs = (await http.get("/v1/runs", params={"limit": 200})).json()["items"]
            bill_of_all = await receipts(http)

    assert [each["customId"] for each in found] == [f"item-{number}" for number in range(count)]
    assert len({each["runId"] for each in found}) == count
    assert sorted(run["runId"] for run in runs) == sorted(each["runId"] for each in found)
    # Those that were executed when the server died have no answer; no other item was affected.
    lost = [each for each in found if each["status"] != "succeeded"]
    assert {each["error"] for each in lost} <= {"internal"}
    assert len(lost) <= 4
    assert batch["counts"] == {
        "pending": 0,
        "running": 0,
        "succeeded": count - len(lost),
        "failed": len(lost),
        "cancelled": 0,
        "refused": 0,
    }
    assert len(simulator.requests) == count
    assert len(bill_of_all) == count


async def test_two_servers_share_a_batch(tmp_path: Path, database_url: str, redis_url: str) -> None:
    count = 20
    async with Simulator(echo) as simulator:
        shared = {"DATABASE_URL": database_url, "REDIS_URL": redis_url}
        (tmp_path / "a").mkdir()
        (tmp_path / "b").mkdir()
        async with (
            a_server(tmp_path / "a", simulator.url, **shared) as (_, first),
            a_server(tmp_path / "b", simulator.url, **shared) as (_, second),
        ):
            path = await created(first, lines(count, f"{MESSAGES}:assistant"), parallelism=12)
            batch = await ended(second, path)
            found = await results(second, path)

    assert batch["counts"]["succeeded"] == count == len(simulator.requests)
    assert [each["result"]["content"] for each in found] == [f"You said number {n}." for n in range(count)]


async def test_a_batch_is_run_from_the_command_line(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(echo)
    connection = {"RUNTALLY_URL": world.url, "RUNTALLY_API_KEY": KEY}
    plain = [a_line(f"item-{number}", f"number {number}", graph="") for number in range(3)]
    for line in plain:
        del line["request"]["graphId"]
    (tmp_path / "requests.jsonl").write_bytes(joined(plain))
    arguments = ("batches", "run", "requests.jsonl", "--graph", f"{MESSAGES}:assistant", "--max-usd", "5")

    # Those that print results are programs of their own: here the server's log lines would be among them.
    previewed = await command(tmp_path, *arguments, "--preview", **connection)
    run = await runtally(tmp_path, *arguments, **connection)
    (batch_id,) = re.findall(r"^batch (\S+)$", run.stderr, re.MULTILINE)
    again = await runtally(tmp_path, "batches", "results", batch_id, **connection)
    others = [("list",), ("show", batch_id), ("cancel", batch_id)]
    shown = [(await command(tmp_path, "batches", *each, **connection)).stdout for each in others]
    later = await command(tmp_path, *arguments, "--preview", **connection)
    refused = await command(tmp_path, *arguments[:3], **connection)

    answers = [json.loads(line)["result"]["content"] for line in run.stdout.splitlines()]
    assert answers == [f"You said number {number}." for number in range(3)]
    assert (run.returncode, again.stdout) == (0, run.stdout)
    assert "3 requests; there are no earlier runs" in previewed.stderr
    assert "3 requests; expected $" in later.stderr
    assert ["completed: 3 succeeded; $" in each for each in shown] == [True] * 3
    assert (refused.exit_code, "lines.1.request.graphId" in refused.stderr) == (2, True)


async def test_the_client_waits_for_a_batch(world_of: WorldOf) -> None:
    world = await world_of(echo)

    def story() -> tuple[list[Batch], list[str | None], Batch]:
        with Client(world.url, KEY) as client:
            prompts = {"a": "one", "b": "two"}
            batch = client.batches.create(f"{MESSAGES}:assistant", prompts, max_usd=Decimal(5))
            states = list(client.batches.watch(batch.batch_id))
            found = client.batches.results(batch.batch_id)
            contents = [each.result.content if each.result else each.error for each in found]
            return states, contents, next(client.batches.list())

    states, contents, listed = await asyncio.to_thread(story)

    assert contents == ["You said one.", "You said two."]
    assert states[-1].counts.succeeded == 2
    assert states[-1].cost_usd == listed.cost_usd is not None
    assert (listed.max_usd, listed.status) == (Decimal(5), "completed")
