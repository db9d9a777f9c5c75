"""Small runs of a well-behaved tenant start as ever while somebody else attacks."""

import asyncio
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress

import httpx
import pytest
import pytest_asyncio

from tests.conftest import a_database
from tests.e2e.stories import a_request
from tests.security.server import Target, a_target

pytestmark = pytest.mark.long

JSON = {"Content-Type": "application/json"}
ATTACKED_S = 2.0
BUSY_CPU_S = 1.0
AT_LEAST_S = 1.0
USUALLY = 4
"""How much longer than without an attack; `benchmarks.hostile` measures it exactly, on an idle machine."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def spared(
    postgres: str, model_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Target]:
    """Another server on the same machine, which nobody attacks."""
    async with (
        a_database(postgres) as database_url,
        a_target(tmp_path_factory.mktemp("spared"), database_url, model_url) as target,
    ):
        yield target


async def held_against(spared: Target, target: Target, attack: Callable[[], Awaitable[None]]) -> None:
    """Fail when the tenant or `/healthz` notices the attack."""
    keys = [await each.new_key("good") for each in (target, spared)]
    async with (
        target.watched() as watched,
        target.used(keys[0]) as attacked,
        spared.used(keys[1]) as usual,
        asyncio.TaskGroup() as group,
    ):
        attacking = group.create_task(_forever(attack))
        await asyncio.sleep(ATTACKED_S)
        attacking.cancel()

    assert all(status == 200 for _, _, status in attacked.outcomes)
    assert len(attacked.done_s) == len(attacked.outcomes) > 0
    limit = USUALLY * statistics.median(usual.started_s) + AT_LEAST_S
    assert statistics.median(attacked.started_s) < limit, (usual.started_s, attacked.started_s)
    assert watched.worst_cpu_s < BUSY_CPU_S


async def _forever(attack: Callable[[], Awaitable[None]]) -> None:
    while True:
        # Who is refused or cut off comes back.
        with suppress(httpx.HTTPError, OSError):
            await attack()


@pytest_asyncio.fixture
async def attacker(target: Target) -> AsyncIterator[httpx.AsyncClient]:
    async with target.client(await target.new_key("attacker")) as http:
        yield http


async def test_20_mb_of_empty_lists_without_a_key(target: Target, spared: Target) -> None:
    body = b"[" + b"[]," * 6_300_000 + b"[]]"

    async def attack() -> None:
        async with target.client("rt_nobody_has_this_key") as nobody:
            await nobody.post("/v1/runs", content=body, headers=JSON)

    await held_against(spared, target, attack)


async def test_connections_with_half_a_request(target: Target, spared: Target) -> None:
    async with AsyncExitStack() as stack:

        async def attack() -> None:
            _, writer = await target.connect()
            stack.callback(writer.close)
            writer.write(b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nX-Half: ")
            await asyncio.sleep(0.01)

        await held_against(spared, target, attack)


async def test_bodies_that_hardly_come(target: Target, spared: Target, attacker: httpx.AsyncClient) -> None:
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

    await held_against(spared, target, attack)


async def test_runs_that_hang(target: Target, spared: Target, attacker: httpx.AsyncClient) -> None:
    started: list[str] = []

    async def attack() -> None:
        answer = await attacker.post("/v1/runs", json=a_request("hang"))
        if answer.is_success:
            started.append(answer.json()["runId"])
        await asyncio.sleep(0.05)

    await held_against(spared, target, attack)
    for run_id in started:
        while (await attacker.post(f"/v1/runs/{run_id}/cancel")).status_code == 429:
            await asyncio.sleep(0.1)
