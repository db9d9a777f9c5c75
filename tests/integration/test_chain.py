# ruff: noqa: S608 - statements of constants
"""Whatever is changed in receipts, ledger, chains or roots is found, by both verifiers, and located."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from app.billing.chain.sealing_key import SealingKey
from tests.integration.chain_books import (
    DAYS,
    ENTRIES,
    SEALED,
    Books,
    attacker,
    checked,
    exported,
    rechain,
    verified,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHANGED = "its content, its hash or its predecessor was changed"

Attack = Callable[[asyncpg.Connection, Books], Awaitable[object]]


def sql(*statements: str) -> Attack:
    """Statements on the first account, `$1`, and the receipts or entries of its positions."""

    async def attack(connection: asyncpg.Connection, books: Books) -> None:
        for statement in statements:
            await connection.execute(statement, *([books.accounts[0]] if "$1" in statement else []))

    return attack


def then_rechained(attack: Attack) -> Attack:
    """The same, and the chain is computed again, as it would be without the change."""

    async def rechained(connection: asyncpg.Connection, books: Books) -> None:
        await attack(connection, books)
        await connection.execute(
            """
            UPDATE chain_links AS link SET content = '{"entry":' || row_to_json(entry)
                || ',"receipt":' || coalesce(row_to_json(receipt)::text, 'null') || '}'
              FROM credit_ledger AS entry
              LEFT JOIN charge_receipts AS receipt ON receipt.id = entry.receipt_id
             WHERE entry.id = link.entry_id AND link.account_id = $1
            """,
            books.accounts[0],
        )
        await rechain(connection, books.accounts[0])

    return rechained


def entry_at(position: str) -> str:
    return f"(SELECT entry_id FROM chain_links WHERE account_id = $1 AND position {position})"


def receipt_at(position: str) -> str:
    return f"(SELECT receipt_id FROM credit_ledger WHERE id IN {entry_at(position)})"


def removed(position: str) -> Attack:
    """Receipts, entries and links of some positions."""
    return sql(
        f"DELETE FROM charge_receipts WHERE id IN {receipt_at(position)}",
        f"DELETE FROM credit_ledger WHERE id IN {entry_at(position)}",
        f"DELETE FROM chain_links WHERE account_id = $1 AND position {position}",
    )


async def swap_chains(connection: asyncpg.Connection, books: Books) -> None:
    one, other = books.accounts[:2]
    nobody = uuid4()
    for old, new in ((one, nobody), (other, one), (nobody, other)):
        await connection.execute("UPDATE chain_links SET account_id = $2 WHERE account_id = $1", old, new)


async def insert_link(connection: asyncpg.Connection, books: Books) -> None:
    """A copy of an entry as its own successor."""
    account = books.accounts[0]
    await connection.execute(
        "UPDATE chain_links SET position = position + 1000 WHERE account_id = $1 AND position > 9", account
    )
    await connection.execute(
        """
        WITH entry AS (
            INSERT INTO credit_ledger (account_id, kind, credits, note, created_at)
            VALUES ($1, 'grant', 7, 'forged', now()) RETURNING *
        )
        INSERT INTO chain_links
        SELECT $1, 10, id, '{"entry":' || row_to_json(entry) || ',"receipt":null}', 'x' FROM entry
        """,
        account,
    )
    await connection.execute(
        "UPDATE chain_links SET position = position - 999 WHERE account_id = $1 AND position > 999", account
    )
    await rechain(connection, account)


async def sign_with_another_key(connection: asyncpg.Connection, _books: Books) -> None:
    statement = await connection.fetchval("SELECT statement FROM chain_roots WHERE number = 2")
    with TemporaryDirectory() as directory:
        key = SealingKey.create(Path(directory) / "other.pem")
    await connection.execute("UPDATE chain_roots SET signature = $1 WHERE number = 2", key.sign(statement))


@dataclass(frozen=True)
class Case:
    """An attack, and what must be found: in the database, and in an export of all accounts."""

    name: str
    attack: Attack
    verify: str
    export: str | None
    """None: the export shows the rows, which are as they were."""


def case(name: str, attack: Attack, *found: str | None) -> Any:
    return pytest.param(Case(name, attack, str(found[0]), found[-1]), id=name)


NEWEST = DAYS * ENTRIES
CASES = [
    case(
        "a receipt's cost",
        sql(f"UPDATE charge_receipts SET cost_usd = 0 WHERE id IN {receipt_at('= 5')}"),
        r"position 5: cost_usd of the receipt \S+ was 0\.\d+ and is now 0",
        rf"position 5 .*{CHANGED}",
    ),
    case(
        "a receipt's cost, not sealed yet",
        sql(f"UPDATE charge_receipts SET cost_usd = 0 WHERE id IN {receipt_at(f'= {SEALED + 3}')}"),
        rf"position {SEALED + 3}: cost_usd of the receipt",
        rf"position {SEALED + 3} .*{CHANGED}",
    ),
    case(
        "a digit of the provider's usage",
        sql(
            "UPDATE charge_receipts SET provider_usage = jsonb_set(provider_usage, '{input_tokens}', "
            f"'1000.000000000000000000001') WHERE id IN {receipt_at('= 5')}"
        ),
        r"position 5: provider_usage of the receipt",
        rf"position 5 .*{CHANGED}",
    ),
    case(
        "a link's content",
        sql(
            "UPDATE chain_links SET content = replace(content, 'goodwill', 'goodwill!') WHERE account_id = $1"
        ),
        r"position \d+ .*its content, its hash",
        None,
    ),
    case(
        "a receipt and its link",
        sql(
            f"UPDATE charge_receipts SET cost_usd = 0 WHERE id IN {receipt_at('= 5')}",
            "UPDATE chain_links SET content = "
            "regexp_replace(content, '\"cost_usd\":[0-9.]+', '\"cost_usd\":0')"
            " WHERE account_id = $1 AND position = 5",
        ),
        rf"position 5 .*{CHANGED}",
    ),
    case(
        "a receipt, and all hashes after it",
        then_rechained(sql(f"UPDATE charge_receipts SET cost_usd = 0 WHERE id IN {receipt_at('= 5')}")),
        rf"position {ENTRIES} .*not as root 1 signed it: a change in 1 to {ENTRIES}",
    ),
    case(
        "a grant, and all hashes after it",
        then_rechained(
            sql(
                "UPDATE credit_ledger SET credits = credits * 10 "
                f"WHERE id IN {entry_at(f'> {ENTRIES}')} AND kind = 'grant'"
            )
        ),
        rf"position {SEALED} .*not as root 2 signed it: a change in {ENTRIES + 1} to {SEALED}",
    ),
    case(
        "a grant",
        sql("UPDATE credit_ledger SET credits = credits * 10 WHERE account_id = $1 AND kind = 'grant'"),
        r"credits of the entry \d+ was 10000000 and is now 100000000",
        CHANGED,
    ),
    case("the first entry is removed", removed("= 1"), "position 2 .*positions 1 to 1 are missing before it"),
    case("an entry is removed", removed("= 7"), "position 8 .*positions 7 to 7 are missing before it"),
    case(
        "the last sealed entry is removed",
        removed(f"= {SEALED}"),
        rf"position {SEALED + 1} .*positions {SEALED} to {SEALED} are missing before it",
    ),
    case(
        "the last entries are removed",
        removed(f">= {SEALED - 1}"),
        f"positions {SEALED - 1} to {SEALED}, which are sealed, are missing",
    ),
    case(
        "the first entry is removed, and hashes are new",
        then_rechained(removed("= 1")),
        rf"position {ENTRIES} .*not as root 1 signed it",
    ),
    case(
        "rows are removed",
        sql(
            f"DELETE FROM charge_receipts WHERE id IN {receipt_at('= 7')}",
            f"DELETE FROM credit_ledger WHERE id IN {entry_at('= 7')}",
        ),
        r"position 7: the entry \d+ is missing",
        r"position 8 .*positions 7 to 7 are missing before it",
    ),
    case(
        "a receipt is removed",
        sql(f"DELETE FROM charge_receipts WHERE id IN {receipt_at('= 7')}"),
        r"position 7: the receipt \S+ is missing",
        rf"position 7 .*{CHANGED}",
    ),
    case("an entry is inserted", insert_link, rf"position {ENTRIES} .*not as root 1 signed it"),
    case(
        "a receipt is inserted past the chain",
        sql(f"UPDATE credit_ledger SET receipt_id = gen_random_uuid() WHERE id IN {entry_at('= 7')}"),
        r"account \S+, receipt \S+: is in no chain",
    ),
    case(
        "a grant is inserted past the chain",
        sql(
            "INSERT INTO credit_ledger (account_id, kind, credits, created_at) VALUES ($1, 'grant', 1, now())"
        ),
        r"account \S+, entry \d+: is in no chain",
    ),
    case(
        "two entries change places",
        sql(
            "UPDATE chain_links SET position = 10000 WHERE account_id = $1 AND position = 3",
            "UPDATE chain_links SET position = 3 WHERE account_id = $1 AND position = 4",
            "UPDATE chain_links SET position = 4 WHERE account_id = $1 AND position = 10000",
        ),
        rf"position 3 .*{CHANGED}",
    ),
    case(
        "two entries change times",
        sql(
            "UPDATE credit_ledger AS entry SET created_at = other.created_at FROM credit_ledger AS other "
            f"WHERE entry.id IN {entry_at('IN (3, 4)')} AND other.id IN {entry_at('IN (3, 4)')} "
            "AND other.id <> entry.id",
            f"UPDATE charge_receipts SET used_at = used_at + interval '1 us' WHERE id IN {receipt_at('= 6')}",
        ),
        "position 6: used_at of the receipt",
        rf"position 6 .*{CHANGED}",
    ),
    case(
        "a day is removed, and hashes are new",
        then_rechained(removed(f"BETWEEN {ENTRIES + 1} AND {SEALED}")),
        r"position \d+ .*not as root 2 signed it",
        "positions|not as root 2 signed it",
    ),
    case(
        "an adjustment is removed", removed(f"= {ENTRIES}"), f"positions {ENTRIES} to {ENTRIES} are missing"
    ),
    case("an account is removed", removed("> 0"), f"positions 1 to {SEALED}, which are sealed, are missing"),
    case(
        "an account is removed everywhere",
        sql(
            "DELETE FROM charge_receipts WHERE account_id = $1",
            "DELETE FROM credit_ledger WHERE account_id = $1",
            "DELETE FROM chain_links WHERE account_id = $1",
            "DELETE FROM chain_leaves WHERE account_id = $1",
            "DELETE FROM credit_accounts WHERE account_id = $1",
            "DELETE FROM accounts WHERE id = $1",
        ),
        "root 1: its leaves were changed, added or removed",
    ),
    case("two accounts change chains", swap_chains, "position 1 .*belongs to another account"),
    case(
        "the first root is removed",
        sql("DELETE FROM chain_roots WHERE number = 1"),
        "root 2: root 1 should be here",
    ),
    case(
        "a root's statement",
        sql("UPDATE chain_roots SET statement = replace(statement, '\"accounts\": 3', '\"accounts\": 4')"),
        "root 2: its signature is not that of a trusted key",
    ),
    case("a root's signature", sign_with_another_key, "root 2: its signature is not that of a trusted key"),
    case(
        "a root's signature is no signature",
        sql("UPDATE chain_roots SET signature = 'x'"),
        "root 1: its signature is not that of a trusted key",
    ),
    case(
        "two roots change numbers",
        sql("UPDATE chain_roots SET number = 3 - number + 10", "UPDATE chain_roots SET number = number - 10"),
        "root 2: root 1 should be here",
    ),
    case(
        "all roots are removed",
        sql("DELETE FROM chain_roots"),
        "leaf of root 1, which is missing: is in no chain",
    ),
    case(
        "the oldest root is removed with its leaves",
        sql("DELETE FROM chain_leaves WHERE root_number = 1", "DELETE FROM chain_roots WHERE number = 1"),
        "root 2: root 1 should be here",
    ),
    case(
        "the newest root is removed",
        sql("DELETE FROM chain_roots WHERE number = 2"),
        "leaf of root 2, which is missing: is in no chain",
    ),
    case(
        "the time of a root",
        sql("UPDATE chain_roots SET made_at = made_at - interval '1 day' WHERE number = 2"),
        "root 2: its column made_at is not what its statement says",
        None,
    ),
    case(
        "a leaf's position",
        sql("UPDATE chain_leaves SET position = position - 1 WHERE account_id = $1 AND root_number = 2"),
        "root 2: its leaves were changed, added or removed",
    ),
    case(
        "a leaf is removed",
        sql("DELETE FROM chain_leaves WHERE account_id = $1 AND root_number = 2"),
        "root 2: its leaves were changed, added or removed",
    ),
]


@pytest.mark.parametrize("planted", CASES)
async def test_an_attack_is_found_by_both_verifiers(books: Books, planted: Case) -> None:
    async with attacker(books.url) as connection:
        await planted.attack(connection, books)

    in_database = (await verified(books.url, books.key)).findings
    in_export = checked(await exported(books.url), books.key)

    assert any(re.search(planted.verify, finding) for finding in in_database), in_database
    if planted.export is None:
        assert in_export == []
    else:
        assert any(re.search(planted.export, finding) for finding in in_export), in_export


async def test_untouched_books_are_as_they_were_written(books: Books) -> None:
    found = await verified(books.url, books.key)

    assert found.findings == ()
    for account in books.accounts:
        assert f"account {account}: {NEWEST} entries, {ENTRIES} of them not yet sealed" in found.summary
        assert checked(await exported(books.url, account), books.key) == []
    assert checked(await exported(books.url), books.key) == []
