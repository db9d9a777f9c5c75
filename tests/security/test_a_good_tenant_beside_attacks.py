"""Small runs of a well-behaved tenant start as ever while somebody else attacks."""

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import TypeAlias

import httpx
import pytest
import pytest_asyncio

from tests.e2e.stories import a_request
from tests.security.server import Target, Used, Watched

pytestmark = pytest.mark.long

JSON = {"Content-Type": "application/json"}
QUIET_S = 1.5
ATTACKED_S = 2.0
AT_LEAST_S = 1.0
"""What the machine the tests run on may add of its own."""
Quiet: TypeAlias = tuple[Watched, Used]
USUALLY = 4
"""How much longer than without an attack; `benchmarks.hostile` measures it exactly, on an idle machine."""


async def measured(target: Target, key: str, during: Callable[[], Awaitable[None]]) -> tuple[Watched, Used]:
    async with target.watched() as watched, target.used(key) as used:
        await during()
    return watched, used


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def quiet(target: Target) -> Quiet:
    """What is usual here and now."""

    async def nothing() -> None:
        await asyncio.sleep(QUIET_S)

    return await measured(target, await target.new_key("good"), nothing)


async def held_against(quiet: Quiet, target: Target, attack: Callable[[], Awaitable[None]]) -> None:
    """Fail when the tenant or `/healthz` notices the attack."""
    before, usual = quiet
    key = await target.new_key("good")

    async def bounded() -> None:
        async with asyncio.TaskGroup() as group:
            attacking = group.create_task(_forever(attack))
            await asyncio.sleep(ATTACKED_S)
            attacking.cancel()

    during, attacked = await measured(target, key, bounded)

    assert all(status == 200 for _, _, status in attacked.outcomes)
    assert len(attacked.done_s) == len(attacked.outcomes) > 0
    limit = USUALLY * statistics.median(usual.started_s) + AT_LEAST_S
    assert statistics.median(attacked.started_s) < limit, (usual.started_s, attacked.started_s)
    assert during.worst_s < before.worst_s + AT_LEAST_S


async def _forever(attack: Callable[[], Awaitable[None]]) -> None:
    while True:
        # Who is refused or cut off comes back.
        with suppress(httpx.HTTPError, OSError):
            await attack()


@pytest_asyncio.fixture
async def attacker(target: Target) -> AsyncIterator[httpx.AsyncClient]:
    async with target.client(await target.new_key("attacker")) as http:
        yield http


async def test_20_mb_of_empty_lists_without_a_key(target: Target, quiet: Quiet) -> None:
    body = b"[" + b"[]," * 6_300_000 + b"[]]"

    async def attack() -> None:
        async with target.client("rt_nobody_has_this_key") as nobody:
            await nobody.post("/v1/runs", content=body, headers=JSON)

    await held_against(quiet, target, attack)


async def test_connections_with_half_a_request(target: Target, quiet: Quiet) -> None:
    async with AsyncExitStack() as stack:

        async def attack() -> None:
            _, writer = await target.connect()
            stack.callback(writer.close)
            writer.write(b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nX-Half: ")
            await asyncio.sleep(0.01)

        await held_against(quiet, target, attack)


async def test_bodies_that_hardly_come(target: Target, quiet: Quiet, attacker: httpx.AsyncClient) -> None:
    async def dribbling() -> AsyncIterator[bytes]:
        yield b'{"graphId": "'
        for _ in range(100):
            yield b"x"
            await asyncio.sleep(0.1)

    async def posted(body: AsyncIterator[bytes]) -> None:
        with suppress(httpx.HTTPError):
            await attacker.post("/v1/runs", content=body, headers=JSON)

    async def attack() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(20):
                group.create_task(posted(dribbling()))

    await held_against(quiet, target, attack)


async def test_runs_that_hang(target: Target, quiet: Quiet, attacker: httpx.AsyncClient) -> None:
    started: list[str] = []

    async def attack() -> None:
        answer = await attacker.post("/v1/runs", json=a_request("hang"))
        if answer.is_success:
            started.append(answer.json()["runId"])
        await asyncio.sleep(0.05)

    await held_against(quiet, target, attack)
    for run_id in started:
        while (await attacker.post(f"/v1/runs/{run_id}/cancel")).status_code == 429:
            await asyncio.sleep(0.1)
