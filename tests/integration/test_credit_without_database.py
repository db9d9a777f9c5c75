"""A PostgreSQL that is frozen or stopped: no answer about the credit is no call, never "no limit"."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from app.platform.embedded.postgres import EmbeddedPostgres
from app.simulator.script import Reply, Text
from app.simulator.server import Simulator
from tests.factories import an_account, an_open_database
from tests.integration.billed_gateway import a_billed_gateway
from tests.integration.gateway_seam import MESSAGE_REQUEST
from tests.patience import PATIENCE_S

HALF_A_DOLLAR = 5_000_000


def processes_of(directory: Path) -> list[psutil.Process]:
    """The processes of the PostgreSQL in a directory, the first one being the one that starts the others."""
    pid = (directory / "postgres" / "data" / "postmaster.pid").read_text().splitlines()[0]
    postmaster = psutil.Process(int(pid))
    return [postmaster, *postmaster.children(recursive=True)]


@contextmanager
def frozen(processes: list[psutil.Process]) -> Iterator[None]:
    """They answer nothing and accept no connection meanwhile."""
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


async def test_without_an_answer_about_the_credit_no_call_is_made(
    migrated_path: Path, tmp_path: Path
) -> None:
    async with (
        EmbeddedPostgres.start(migrated_path) as postgres,
        an_open_database(postgres.url) as database,
        Simulator(lambda _: Reply([Text("hi")])) as provider,
        a_billed_gateway(
            database, provider.url, tmp_path / "journal", delivers=False, ledger_wait_s=0.5
        ) as gateway,
    ):
        key = await an_account(database)
        ledger = gateway.metering.ledger
        await ledger.change_mode(key.account_id, "prepaid")
        await ledger.grant(key.account_id, HALF_A_DOLLAR)
        channels = [gateway.channel(key, f"run-{number}") for number in range(6)]
        with frozen(processes_of(migrated_path)):
            calls = (gateway.call(channel, MESSAGE_REQUEST) for channel in channels[:4])
            while_frozen = await asyncio.gather(*calls)
        sent = len(provider.requests)
        # Nothing of it is left when the database answers again.
        async with asyncio.timeout(PATIENCE_S):
            afterwards = await gateway.call(channels[4], MESSAGE_REQUEST)
        for process in processes_of(migrated_path):
            process.kill()
        once_stopped = await gateway.call(channels[5], MESSAGE_REQUEST)

    assert (while_frozen, sent, afterwards, once_stopped) == ([402] * 4, 0, 200, 402)
    assert [channel.refused for channel in channels] == [*["database"] * 4, None, "database"]
    assert len(provider.requests) == 1
