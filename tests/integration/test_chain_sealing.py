"""Roots, keys, servers at once, and what nobody may change between two roots."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.billing.budgets.records import Amount
from app.billing.budgets.service import Budgets
from app.billing.chain.repository import lock_sealing
from app.billing.chain.sealing_key import SealingKey
from app.billing.chain.verification import verify
from app.billing.credit.ledger import CreditLedger
from app.billing.receipts.journal import Journal
from app.ids import RunId, RunKey, new_uuid
from app.platform.db import Database
from tests.factories import a_budget, a_fact, an_account
from tests.integration import chain_books
from tests.integration.receipt_queues import delivered_queue
from tests.integration.statements import rows
from tests.patience import PATIENCE_S

DAY = timedelta(days=1)


@pytest.fixture
def key(tmp_path: Path) -> SealingKey:
    return SealingKey.create(tmp_path / "sealing.pem")


async def test_a_chain_that_is_computed_again_before_it_is_sealed_is_found_by_every_server(
    database: Database, database_url: str, key: SealingKey, tmp_path: Path
) -> None:
    owner, other = await an_account(database), await an_account(database, "globex")
    sealer = chain_books.a_sealer(database, key, tmp_path)
    await chain_books.grant(database, owner, 3)
    assert (await sealer.seal()) is not None
    await chain_books.grant(database, owner, 3)
    assert await sealer.watch() == set()

    async with chain_books.attacker(database_url) as connection:
        await connection.execute("DELETE FROM chain_links WHERE position = 5")
        await connection.execute(
            "DELETE FROM credit_ledger WHERE id NOT IN (SELECT entry_id FROM chain_links)"
        )
        await connection.execute("UPDATE credit_accounts SET granted = 50")
        await chain_books.rechain(connection, owner.account_id)
    await chain_books.grant(database, owner)
    await chain_books.grant(database, other)

    assert (await verify(database, key.public_keys)).findings == ()
    # Found by this server, and by one that starts with its data directory.
    for server in (sealer, chain_books.a_sealer(database, key, tmp_path)):
        assert await server.watch() == {owner.account_id}
        assert server.state == "rewritten"
    restarted = chain_books.a_sealer(database, key, tmp_path)
    found = await verify(database, key.public_keys, remembered=restarted._witness.heads)
    assert [each for each in found.findings if "position 6: not as a server remembers it" in each]
    # What was rewritten is not sealed, other accounts are.
    assert (await restarted.seal()) is not None
    assert (
        f"account {owner.account_id}: 6 entries, 3 of them not yet sealed"
        in (await verify(database, key.public_keys)).summary
    )


@pytest.mark.parametrize("planted", ["replace(content, '10', '99')", "replace(content, ':', ';')"])
async def test_a_chain_that_contradicts_its_root_is_not_sealed_again(
    database: Database, database_url: str, key: SealingKey, tmp_path: Path, planted: str
) -> None:
    owner = await an_account(database)
    await chain_books.grant(database, owner, 3)
    assert (await chain_books.a_sealer(database, key, tmp_path).seal()) is not None
    async with chain_books.attacker(database_url) as connection:
        await connection.execute(f"UPDATE chain_links SET content = {planted}")  # noqa: S608 - constants
        await chain_books.rechain(connection, owner.account_id)
    await chain_books.grant(database, owner)

    # A server that remembers nothing.
    assert await chain_books.a_sealer(database, key, tmp_path / "elsewhere").seal() is None

    assert [
        each
        for each in (await chain_books.verified(database_url, key)).findings
        if "not as root 1 signed it" in each
    ]


async def test_roots_that_were_noted_before_cannot_be_taken_back_or_replaced(
    database: Database, database_url: str, key: SealingKey, tmp_path: Path
) -> None:
    owner = await an_account(database)
    for _ in range(2):
        await chain_books.grant(database, owner)
        assert (await chain_books.a_sealer(database, key, tmp_path).seal()) is not None
    earlier = await chain_books.exported(database_url, owner.account_id)
    async with chain_books.attacker(database_url) as connection:
        await connection.execute("DELETE FROM chain_leaves WHERE root_number = 2")
        await connection.execute("DELETE FROM chain_roots WHERE number = 2")
        await connection.execute("DELETE FROM chain_links WHERE position = 2")

    removed = chain_books.checked(await chain_books.exported(database_url, owner.account_id), key, earlier)
    # Whoever has the private key, too, makes another root.
    await chain_books.grant(database, owner)
    assert (await chain_books.a_sealer(database, key, tmp_path / "elsewhere").seal()) is not None
    replaced = chain_books.checked(await chain_books.exported(database_url, owner.account_id), key, earlier)

    assert "root 2: is missing" in removed
    assert "root 2: is another than the one that was noted before" in replaced


async def test_a_root_of_before_a_rotation_is_verified_with_the_public_key_of_before(
    database: Database, database_url: str, key: SealingKey, tmp_path: Path
) -> None:
    owner = await an_account(database)
    await chain_books.grant(database, owner)
    assert (await chain_books.a_sealer(database, key, tmp_path).seal()) is not None

    SealingKey.rotate(tmp_path / "sealing.pem")
    rotated = SealingKey.read(tmp_path / "sealing.pem")
    await chain_books.grant(database, owner)
    assert (await chain_books.a_sealer(database, rotated, tmp_path).seal()) is not None

    assert (await chain_books.verified(database_url, rotated)).findings == ()
    assert (await chain_books.verified(database_url, key)).findings == (
        "root 2: its signature is not that of a trusted key",
    )
    assert list(rotated.public_keys) == [rotated.id, key.id]


async def test_without_a_key_chains_grow_without_roots(
    database: Database, database_url: str, key: SealingKey, tmp_path: Path
) -> None:
    owner = await an_account(database)
    await chain_books.grant(database, owner)
    sealer = chain_books.a_sealer(database, None, tmp_path)

    assert await sealer.step() is None
    assert sealer.state == "unsigned"
    found = await chain_books.verified(database_url, key)
    assert found.findings == ()
    assert found.summary[0] == "no roots"


async def test_roots_are_made_at_intervals_whatever_the_clock_does(
    database: Database, database_url: str, key: SealingKey, tmp_path: Path
) -> None:
    owner = await an_account(database)
    sealer = chain_books.a_sealer(database, key, tmp_path, every=DAY)
    await chain_books.grant(database, owner)
    assert await sealer.step() is not None
    await chain_books.grant(database, owner)
    assert await sealer.step() is None

    for moved in (DAY, -365 * DAY):
        async with chain_books.attacker(database_url) as connection:
            await connection.execute("UPDATE chain_roots SET made_at = now() - $1::interval", moved)
        assert await sealer.step() is not None
        assert await sealer.step() is None
        # Nothing has changed since that root.
        assert await sealer.seal() is None
        await chain_books.grant(database, owner)


async def test_servers_that_seal_at_once_make_one_root(
    database: Database, database_url: str, key: SealingKey, tmp_path: Path
) -> None:
    await chain_books.grant(database, await an_account(database))
    sealers = [chain_books.a_sealer(database, key, tmp_path / name, every=DAY) for name in "abcd"]
    for name in "abcd":
        (tmp_path / name).mkdir()

    made = await asyncio.gather(*(sealer.step() for sealer in sealers))

    assert [root.number for root in made if root is not None] == [1]
    assert (await chain_books.verified(database_url, key)).findings == ()


async def test_a_server_waits_while_another_makes_a_root(
    database: Database, key: SealingKey, tmp_path: Path
) -> None:
    await chain_books.grant(database, await an_account(database))
    waiting = text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted")

    async with asyncio.timeout(PATIENCE_S), database.transaction() as other:
        await lock_sealing(other)
        sealing = asyncio.create_task(chain_books.a_sealer(database, key, tmp_path).step())
        while not (await other.execute(waiting)).scalar_one():
            await asyncio.sleep(0.01)

    assert (await sealing) is not None


async def _change_credit(database: Database, owner: KeyRecord) -> None:
    ledger = CreditLedger(database)
    for number in range(10):
        run = RunKey(owner.account_id, RunId(f"run-{number}"))
        await ledger.resize_reservation(run, Amount(100, 0))
        await ledger.grant(owner.account_id, 1)
        async with database.transaction() as tx:
            await ledger.release(tx, run)


def _leave_journals(directory: Path, owners: Sequence[KeyRecord]) -> None:
    """Two processes died with the same messages in their journals, delivered or not."""
    for _ in range(2):
        dead = Journal(directory, new_uuid())
        for owner in owners:
            dead.start_message(a_fact(owner, "msg_dead"))
            dead.complete_message(a_fact(owner, "msg_dead"))
        dead.close()


async def test_writers_at_once_and_recovered_journals_leave_one_chain_for_each_account(
    database: Database, database_url: str, key: SealingKey, tmp_path: Path
) -> None:
    owners = [await an_account(database, f"account-{number}") for number in range(6)]
    for owner in owners:
        await Budgets(database).set_budget(owner.account_id, a_budget(credits=10**12))
    _leave_journals(tmp_path / "journal", owners)
    rng = random.Random(11)  # noqa: S311 - nothing secret
    facts = [a_fact(owner, f"msg_{number}") for number in range(30) for owner in owners] * 2
    rng.shuffle(facts)

    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(delivered_queue(database, tmp_path / "journal")) for _ in "1234"
        ]
        changes = [asyncio.create_task(_change_credit(database, owner)) for owner in owners]
        for number, fact in enumerate(facts):
            rng.choice(servers).record(fact)
            if number % 7 == 0:
                await chain_books.a_sealer(database, key, tmp_path).seal()
        await asyncio.gather(*changes)
        for server, owner in product(servers, owners):
            server.recover()
            await server.flush(a_fact(owner).run, within_s=PATIENCE_S)

    assert (await chain_books.verified(database_url, key)).findings == ()
    links = await rows(database, "SELECT count(*) AS number FROM chain_links GROUP BY account_id")
    assert {row.number for row in links} == {31 + 3 * 10}
