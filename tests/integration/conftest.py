"""Servers of tests; one is shared by tests that start no run and change nothing but accounts of their own."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import httpx
import pytest
import pytest_asyncio

from app.auth.records import KeyRecord
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.requests.principal import SCOPES
from app.simulator.script import in_turn
from tests.conftest import TEMPLATE, a_database, keep_open
from tests.e2e.stories import World, WorldOf, a_client, a_world
from tests.factories import an_account
from tests.integration.chain_books import Books, a_copy, write_books
from tests.integration.object_storage import LoopbackS3, loopback_s3
from tests.integration.run_service import Core, OpenCore, a_core, answers
from tests.integration.schedule_server import OpenServer, ScheduleServer, a_schedule_server
from tests.scripted import Script

in_shared_world = pytest.mark.asyncio(loop_scope="module")
"""For tests with `world`: they run in the event loop of its server."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_world_of(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[WorldOf]:
    """As `world_of`, for worlds of all tests of a module."""
    async with (
        a_database(postgres) as database_url,
        keep_open(partial(a_world, tmp_path_factory.mktemp("world"), database_url)) as enter,
    ):
        yield enter


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(shared_world_of: WorldOf) -> World:
    """A world of all tests of a module that are marked `in_shared_world`."""
    return await shared_world_of(in_turn(), RUNTALLY_WEBHOOK_ALLOW_PRIVATE=True)


@pytest.fixture
def account() -> str:
    """The name of an account of the test's own."""
    return f"tenant-{uuid4().hex}"


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(world: World, account: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an account of the test's own in the shared world."""
    scopes = [scope for scope in SCOPES if scope != "admin"]
    _, key = await world.services.accounts.create_key(account, scopes)
    async with a_client(world.url, key) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def own(world: World, tenant: httpx.AsyncClient) -> World:
    """The shared world to an account of the test's own."""
    return replace(world, http=tenant)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def written_books(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Books]:
    """Chained books that tests of a module copy."""
    async with a_copy(postgres, TEMPLATE) as url:
        yield await write_books(url, tmp_path_factory.mktemp("books"))


@pytest_asyncio.fixture(loop_scope="module")
async def books(postgres: str, written_books: Books) -> AsyncIterator[Books]:
    """Chained books of the test's own."""
    async with a_copy(postgres, written_books.url.rpartition("/")[2]) as url:
        yield Books(url, written_books.key, written_books.accounts)


@pytest_asyncio.fixture
async def admin(database_url: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection to the test's own database that no fault affects."""
    connection = await asyncpg.connect(
        database_url, server_settings={"default_transaction_read_only": "off", "role": "none"}
    )
    yield connection
    await connection.close()


@pytest.fixture
def open_core(database: Database, tmp_path: Path) -> OpenCore:
    """Opens processes on the test's database: what accepts, executes and recovers runs."""
    numbers = count()

    def opened(script: Script = answers, **options: Any) -> AbstractAsyncContextManager[Core]:
        return a_core(database, tmp_path / f"process-{next(numbers)}", script, **options)

    return opened


@pytest.fixture
def open_server(database: Database, tmp_path: Path) -> OpenServer:
    """Opens processes on the test's database that start the runs of schedules."""
    numbers = count()

    def opened(script: Script = answers, **options: Any) -> AbstractAsyncContextManager[ScheduleServer]:
        return a_schedule_server(database, tmp_path / f"process-{next(numbers)}", script, **options)

    return opened


@pytest_asyncio.fixture
async def key(database: Database) -> KeyRecord:
    """The first key of an account."""
    return await an_account(database)


@pytest_asyncio.fixture
async def schemas() -> AsyncIterator[SchemaChecker]:
    """What checks the schemas of tools."""
    async with SchemaChecker(workers=1, check_s=1) as checker:
        yield checker


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackS3]:
    """An object storage, to which the environment leads."""
    with loopback_s3() as s3:
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        yield s3
