"""A PostgreSQL that is frozen or stopped: no answer about the credit is no call, never "no limit"."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
import pytest_asyncio

from app.auth.records import KeyRecord
from app.billing.credit.ledger import AccountTerms, CreditLedger
from app.billing.prices.price_list import PriceList
from app.billing.receipts.journal import Journal
from app.billing.receipts.queue import ReceiptQueue
from app.executors.metering import BilledMetering
from app.gateway.channel import Channel, ChannelLimits
from app.gateway.proxy import Gateway
from app.gateway.upstream import Upstream
from app.ids import RunId, RunKey, new_uuid
from app.platform.db import Database
from app.platform.embedded.postgres import EmbeddedPostgres
from app.simulator.script import Reply, Text
from app.simulator.server import Simulator
from app.usage.records import Attribution
from tests.conftest import in_memory
from tests.factories import a_plan, an_account
from tests.integration.gateway_seam import AGENTS, MESSAGE_REQUEST, MODEL, PROVIDER_KEY
from tests.patience import PATIENCE_S

HALF_A_DOLLAR = 5_000_000


def processes_of(directory: Path) -> list[psutil.Process]:
    """The processes of the PostgreSQL in a directory, the first one being the one that starts the others."""
    pid = (directory / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0]
    postmaster = psutil.Process(int(pid))
    return [postmaster, *postmaster.children(recursive=True)]


class Server:
    """A PostgreSQL of this test's own."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """While the body runs it answers nothing and accepts no connection."""
        processes = processes_of(self._directory)
        for process in processes:
            process.suspend()
        try:
            yield
        finally:
            for process in processes:
                process.resume()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Server, str]]:
    with in_memory(tmp_path_factory.mktemp("frozen")) as directory:
        async with EmbeddedPostgres.start(directory) as started:
            migrating = await Database.open(started.url)
            await migrating.migrate()
            await migrating.aclose()
            yield Server(directory), started.url


class Runs:
    """Runs of one prepaid account, behind a gateway and a scripted provider."""

    def __init__(
        self,
        key: KeyRecord,
        metering: BilledMetering,
        gateway: Gateway,
        *,
        agent: httpx.AsyncClient,
        simulator: Simulator,
    ) -> None:
        self.ledger = metering.ledger
        self.simulator = simulator
        self.account_id = key.account_id
        self._key = key
        self._metering = metering
        self._gateway = gateway
        self._agent = agent
        self._number = 0

    async def open(self, *, reserved: int | None = None) -> Channel:
        """A run's channel; `reserved` credits were set aside when it was accepted."""
        self._number += 1
        run = RunKey(self._key.account_id, RunId(f"run-{self._number}"))
        if reserved is not None:
            assert await self.ledger.resize_reservation(run, reserved) is not None
        plan = a_plan(
            run=run, model=MODEL, attribution=Attribution(self._key.id, "a:b", None), reserved=reserved
        )
        hooks = self._metering.hooks_for(plan, executor_type="claude_sdk")
        limits = ChannelLimits(asyncio.get_running_loop().time() + 60)
        return self._gateway.open_channel(run.run_id, limits, hooks)

    async def call(self, channel: Channel) -> int:
        """The status of a call through a channel."""
        url = f"{channel.url}/v1/messages"
        return (await self._agent.post(url, json=MESSAGE_REQUEST, headers=AGENTS)).status_code


@asynccontextmanager
async def runs_of(
    database: Database, directory: Path, *, mode: str = "prepaid", ledger_wait_s: float = 0.5
) -> AsyncIterator[Runs]:
    key = await an_account(database, f"account-{new_uuid()}")
    prices, ledger = PriceList(), CreditLedger(database)
    if mode == "prepaid":
        await ledger.change_terms(key.account_id, lambda _: AccountTerms("prepaid", None))
        await ledger.grant(key.account_id, HALF_A_DOLLAR)
    journal = Journal(directory, new_uuid())
    metering = BilledMetering(ReceiptQueue(journal, prices), ledger, prices, ledger_wait_s=ledger_wait_s)
    async with (
        Simulator(lambda _: Reply([Text("hi")])) as simulator,
        Upstream(base_url=simulator.url, api_key=PROVIDER_KEY) as provider,
        Gateway(provider) as gateway,
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as agent,
    ):
        yield Runs(key, metering, gateway, agent=agent, simulator=simulator)
    journal.close()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    database = await Database.open(url)
    try:
        yield database
    finally:
        await database.aclose()


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_run_that_never_got_an_answer_makes_no_call(
    server: tuple[Server, str], tmp_path: Path
) -> None:
    postgres, url = server
    async with opened(url) as database, runs_of(database, tmp_path) as runs:
        channel = await runs.open()
        with postgres.frozen():
            statuses = [await runs.call(channel)]
            channels = [await runs.open() for _ in range(3)]
            statuses += await asyncio.gather(*(runs.call(each) for each in channels))

        assert statuses == [402] * 4
        assert {each.refused for each in (channel, *channels)} == {"database"}
        assert runs.simulator.requests == []
        # Nothing of it is left when the database answers again.
        async with asyncio.timeout(PATIENCE_S):
            assert await runs.call(await runs.open()) == 200


async def test_a_stopped_database_is_no_answer(tmp_path: Path) -> None:
    directory = tmp_path / "stopped"
    async with EmbeddedPostgres.start(directory) as started, opened(started.url) as database:
        await database.migrate()
        async with runs_of(database, tmp_path, ledger_wait_s=0.5) as runs:
            channel = await runs.open()
            for process in processes_of(directory):
                process.kill()
            status = await runs.call(channel)

    assert (status, channel.refused, runs.simulator.requests) == (402, "database", [])
