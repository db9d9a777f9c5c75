# ruff: noqa: S608 - statements of constants
"""An altered sum is found, although no chain contains it: balances, months, usage rollups."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from app.billing.chain.sums.comparison import MOST_ROLLUPS, ROWS_PER_SLICE, wrong_sums
from app.platform.db import Database
from tests.factories import a_fact, an_account, an_open_database
from tests.integration.chain_books import DAYS, MESSAGES, Books, attacker, verified
from tests.integration.receipt_queues import delivered_queue
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
ROLLUP = (
    "its usage rollup of 2026-11-21 12:00:00[+]00, model claude-sonnet-4-6, graph \\S+, key [0-9a-f-]{36}"
)
OF_THE_SECOND_DAY = (
    "WHERE account_id = $1 AND bucket = '2026-11-21 12:00:00+00' AND model = 'claude-sonnet-4-6'"
)
FORGED = (
    "INSERT INTO usage_rollups SELECT account_id, bucket, 'claude\nforged', graph_id, api_key_id, "
    f"0, 0, 0, 0, 0, 0, 0, 0 FROM usage_rollups {OF_THE_SECOND_DAY}"
)
FORGED_ROLLUP = ROLLUP.replace("claude-sonnet-4-6", r"claude\\nforged")
MANY_FORGED = (
    "INSERT INTO usage_rollups SELECT account_id, bucket + n * interval '1 second', model, graph_id, "
    "api_key_id, 1, 1, 1, 1, 1, 1, 1, 1 FROM usage_rollups, generate_series(1, 1000) AS n "
    f"{OF_THE_SECOND_DAY}"
)
RECEIPTS = MESSAGES - 1


async def altered(books: Books, *statements: str) -> UUID:
    """Change the sums of the first account, `$1`, and return it."""
    async with attacker(books.url) as connection:
        for statement in statements:
            await connection.execute(statement, *([books.accounts[0]] if "$1" in statement else []))
    return books.accounts[0]


async def sums_found(books: Books, account: UUID, *, rows_per_slice: int = 1) -> list[str]:
    """The findings without the account's name, which all of them have."""
    async with an_open_database(books.url) as database:
        found = await wrong_sums(database, account, rows_per_slice=rows_per_slice)
    assert all(finding.startswith(f"account {account}: ") for finding in found)
    return [finding.removeprefix(f"account {account}: ") for finding in found]


def account_set(assignment: str) -> str:
    return f"UPDATE credit_accounts SET {assignment} WHERE account_id = $1"


def month_set(value: str) -> str:
    return account_set(f"spent_by_month = {value}")


def rollup_set(assignment: str) -> str:
    return f"UPDATE usage_rollups SET {assignment} {OF_THE_SECOND_DAY}"


def differs(name: str, recorded: object, recomputed: object = r"\d+") -> str:
    return f"{name} is recorded as {recorded} and recomputed as {recomputed}"


BY_MONTH, BALANCE = "its spent_by_month", "its balance:"


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (account_set("granted = 5"), differs(f"{BALANCE} granted", 5, 30000000)),
        (account_set("adjusted = adjusted + 5"), differs(f"{BALANCE} adjusted", -10, -15)),
        (account_set("spent = 0"), differs(f"{BALANCE} spent", 0)),
        (account_set("reserved = -1"), differs(f"{BALANCE} reserved", -1, 0)),
        (month_set("jsonb_set(spent_by_month, '{2026-11}', '7')"), differs(f"{BY_MONTH}: 2026-11", 7)),
        (month_set("spent_by_month || '{\"2026-10\": 0}'"), differs(f"{BY_MONTH}: 2026-10", 0, "nothing")),
        (month_set("'{}'"), differs(f"{BY_MONTH}: 2026-11", "nothing")),
        (
            month_set("jsonb_build_object('2026-11', spent_by_month ->> '2026-11')"),
            differs(f"{BY_MONTH}: 2026-11", r"(\d+)", r"\1"),
        ),
        (month_set("'[]'"), differs(BY_MONTH, r"\[\]", r"2026-11 \d+")),
        (
            month_set("('{\"2026-11\": 1' || repeat('0', 5000) || '}')::jsonb"),
            differs(f"{BY_MONTH}: 2026-11", "10+"),
        ),
        (
            "DELETE FROM credit_accounts WHERE account_id = $1",
            r"its row of credit_accounts is missing; recomputed: granted 30000000, adjusted -15, .*",
        ),
        (rollup_set("receipts = receipts + 1"), differs(f"{ROLLUP}: receipts", RECEIPTS + 1, RECEIPTS)),
        (
            rollup_set("cost_usd = cost_usd - 0.0000000001"),
            differs(f"{ROLLUP}: cost_usd", r"\d+\.\d+", r"\d+\.\d+"),
        ),
        (rollup_set("charged_credits = 1"), differs(f"{ROLLUP}: charged_credits", 1)),
        (rollup_set("cache_miss_usd = 'NaN'"), differs(f"{ROLLUP}: cache_miss_usd", "NaN", "0[.]0+")),
        (
            f"DELETE FROM usage_rollups {OF_THE_SECOND_DAY}",
            rf"{ROLLUP} is missing; recomputed: receipts {RECEIPTS}, input_tokens \d+, .*",
        ),
        (FORGED, rf"{FORGED_ROLLUP} has no receipts; recorded: receipts 0, .*"),
    ],
)
async def test_an_altered_sum_is_found_and_named(books: Books, statement: str, found: str) -> None:
    account = await altered(books, statement)

    (finding,) = await sums_found(books, account)
    in_all = (await verified(books.url, books.key)).findings

    assert re.fullmatch(found, finding), finding
    assert in_all == (f"account {account}: {finding}",)


@pytest.mark.parametrize(
    "moved",
    [
        "bucket = bucket + interval '1 second'",
        "bucket = '20000-01-01'",
        "bucket = 'infinity'",
        "bucket = '-infinity'",
        "bucket = '0044-03-15 BC'",
    ],
)
async def test_a_rollup_that_is_moved_is_missing_at_its_place_and_has_no_receipts(
    books: Books, moved: str
) -> None:
    account = await altered(books, rollup_set(moved))

    found = sorted(await sums_found(books, account), key=lambda finding: "no receipts" in finding)

    assert [bool(re.match(ROLLUP, finding)) for finding in found] == [True, False]
    assert "is missing; recomputed" in found[0]
    assert "has no receipts; recorded" in found[1]


@pytest.mark.parametrize("moment", ["20000-01-01", "infinity", "-infinity", "0044-03-15 BC"])
async def test_receipts_at_impossible_times_are_found(books: Books, moment: str) -> None:
    account = await altered(
        books, f"UPDATE charge_receipts SET used_at = '{moment}' WHERE account_id = $1 AND run_id = 'run-1'"
    )

    found = await sums_found(books, account)

    assert any(re.match(f"{ROLLUP} has no receipts", finding) for finding in found), found
    assert any(f"its usage rollup of {moment.partition(' ')[0]}" in finding for finding in found), found
    assert any("used_at of the receipt" in each for each in (await verified(books.url, books.key)).findings)


@pytest.mark.parametrize("rows_per_slice", [1, 7, MESSAGES, DAYS * MESSAGES, ROWS_PER_SLICE])
async def test_untouched_sums_are_right_however_they_are_sliced(books: Books, rows_per_slice: int) -> None:
    for account in books.accounts:
        assert await sums_found(books, account, rows_per_slice=rows_per_slice) == []


async def test_sums_of_an_account_that_was_removed_are_found(books: Books) -> None:
    (account, *_) = books.accounts
    async with attacker(books.url) as connection:
        stranger = await connection.fetchval(
            "UPDATE usage_rollups SET account_id = gen_random_uuid() WHERE account_id = $1 "
            "AND bucket = '2026-11-21 12:00:00+00' AND model = 'claude-sonnet-4-6' RETURNING account_id",
            account,
        )

    found = (await verified(books.url, books.key)).findings

    assert [finding.partition(": ")[0] for finding in found] == [f"account {account}", f"account {stranger}"]


async def test_of_many_altered_rollups_some_are_named(books: Books) -> None:
    account = await altered(books, MANY_FORGED)

    found = await sums_found(books, account)

    assert len(found) == MOST_ROLLUPS + 1
    assert found[-1] == "more usage rollups differ"


async def test_charges_that_are_written_meanwhile_are_no_findings(
    books: Books, tmp_path_factory: pytest.TempPathFactory
) -> None:
    database = await Database.open(books.url)
    owner = await an_account(database, "hooli")
    facts = [a_fact(owner, f"msg_{n}", at=NOON + n * timedelta(hours=13)) for n in range(120)]

    async def charge() -> None:
        async with delivered_queue(database, tmp_path_factory.mktemp("journal")) as queue:
            for fact in facts:
                queue.record(fact)
                await queue.flush(fact.run, within_s=PATIENCE_S)

    charging = asyncio.create_task(charge())
    found = await sums_found(books, owner.account_id)
    while not charging.done():
        found += await sums_found(books, owner.account_id)
    await charging

    assert found + await sums_found(books, owner.account_id) == []
    async with attacker(books.url) as connection:
        charged = "SELECT count(*) FROM charge_receipts WHERE account_id = $1"
        assert await connection.fetchval(charged, owner.account_id) == len(facts)
    await database.aclose()
