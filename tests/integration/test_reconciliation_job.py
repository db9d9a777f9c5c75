"""Comparing again, comparing at once, and reports that cannot be read."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import text
from structlog.testing import capture_logs

from app.billing.reconciliation.calls.counter import CallCounter
from app.billing.reconciliation.provider.reports import ReportsUnavailable
from app.billing.reconciliation.records import Window
from app.billing.reconciliation.repository import claim, complete
from app.billing.reconciliation.schedule import CATCH_UP
from app.billing.reconciliation.service import ProviderKeyUnknown, ReconciliationRunning
from app.ids import new_uuid
from app.platform.db import Database, StatementFailed
from app.simulator.script import HttpError
from tests.factories import an_account
from tests.integration.bookkeeping import OTHER_KEY, RUN_KEY, Bookkeeping, bookkeeping
from tests.provider.admin_reports import key_id

DAY = datetime(2026, 11, 20, tzinfo=UTC)
NOON = DAY + timedelta(hours=12)
HOUR, DAYS = timedelta(hours=1), timedelta(days=1)
TODAY = Window(DAY, DAY + timedelta(days=1))


@pytest_asyncio.fixture
async def books(database: Database) -> AsyncIterator[Bookkeeping]:
    async with bookkeeping(database, await an_account(database)) as kept:
        # So that the provider knows the key.
        kept.answered(DAY - timedelta(days=90))
        yield kept


async def rows(books: Bookkeeping, statement: str, **values: Any) -> list[Any]:
    async with books.database.transaction() as tx:
        done = await tx.execute(text(statement), values)
        return list(done) if done.returns_rows else []


async def passed(books: Bookkeeping, now: datetime) -> list[tuple[datetime, datetime]]:
    """What one pass of the job compares."""
    return [(each.window.start, each.window.end) for each in await books.reconciliation.compare_due(now=now)]


def covered(passes: list[list[tuple[datetime, datetime]]]) -> list[tuple[datetime, datetime]]:
    """What passes have compared, with neighbours merged."""
    merged: list[tuple[datetime, datetime]] = []
    for start, end in sorted(window for each in passes for window in each):
        if merged and merged[-1][1] >= start:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


async def test_a_later_comparison_supersedes_and_keeps_the_earlier_one(books: Bookkeeping) -> None:
    books.answered(NOON)
    await books.compared(DAY)
    await books.charged(NOON)
    result = await books.compared(DAY)

    assert not result.differences
    found = await rows(books, "SELECT cause, superseded_by IS NULL FROM reconciliation_differences")
    assert [tuple(row) for row in found] == [("unknown_caller", False)]
    assert len(await rows(books, "SELECT 1 AS one FROM reconciliations WHERE state = 'complete'")) == 2
    assert len(await rows(books, "SELECT 1 AS one FROM reconciled_usage")) == 1


async def test_comparing_twice_changes_nothing(books: Bookkeeping) -> None:
    books.answered(NOON)
    books.answered(NOON, api_key=OTHER_KEY)

    assert (await books.compared(DAY)).hours == (await books.compared(DAY)).hours
    current = await rows(
        books, "SELECT cause FROM reconciliation_differences WHERE superseded_by IS NULL ORDER BY 1"
    )
    assert [row.cause for row in current] == ["foreign_key", "unknown_caller"]
    assert len(await rows(books, "SELECT 1 AS one FROM reconciliation_differences")) == 2


async def test_an_unexplained_difference_is_logged_once(books: Bookkeeping) -> None:
    books.answered(NOON)

    with capture_logs() as logs:
        await books.compared(DAY)
        await books.compared(DAY)

    errors = [each["event"] for each in logs if each["log_level"] == "error"]
    assert errors == ["reconciliation.unexplained"]


async def test_calls_that_cannot_be_stored_are_counted_later(books: Bookkeeping) -> None:
    counter = CallCounter(books.database, now=lambda: NOON)
    counter.count_sent("claude-sonnet-4-6")
    await rows(books, "ALTER TABLE gateway_calls RENAME TO hidden")
    with pytest.raises(StatementFailed):
        await counter.flush()
    counter.count_sent("claude-sonnet-4-6")
    await rows(books, "ALTER TABLE hidden RENAME TO gateway_calls")

    await counter.flush()

    (found,) = await rows(books, "SELECT sent, refused FROM gateway_calls")
    assert tuple(found) == (2, 0)


async def test_a_clock_that_jumped_ahead_does_not_stop_the_job(books: Bookkeeping) -> None:
    await books.reconciliation.compare_due(now=NOON + timedelta(days=400))

    (first, *_) = await books.reconciliation.compare_due(now=NOON)

    assert first.window.start == NOON - timedelta(hours=25)


async def test_of_servers_that_try_at_once_one_compares(books: Bookkeeping) -> None:
    found = await asyncio.gather(*(books.reconciliation.compare_due(now=NOON) for _ in range(4)))

    assert sorted(map(len, found)) == [0, 0, 0, 2]


async def test_one_process_at_a_time_compares(books: Bookkeeping) -> None:
    running = books.reconciliation._claimed(TODAY)
    async with running:
        with pytest.raises(ReconciliationRunning):
            await books.compared(DAY)
        # The periodic job of another server leaves it to the one that runs.
        assert await books.reconciliation.compare_due(now=NOON) == []


async def test_a_process_whose_claim_has_expired_stores_nothing(books: Bookkeeping) -> None:
    books.answered(NOON)
    lost = new_uuid()
    async with books.database.transaction() as tx:
        assert await claim(tx, lost, TODAY, lease=-HOUR)
    result = await books.compared(DAY)

    async with books.database.transaction() as tx:
        assert not await complete(tx, lost, result, gone=())

    (found,) = await rows(books, "SELECT reconciliation_id FROM reconciliation_differences")
    assert found.reconciliation_id != lost


async def test_the_claim_of_a_dead_process_expires(books: Bookkeeping) -> None:
    await rows(
        books,
        "INSERT INTO reconciliations (id, window_start, window_end, state, started_at, lease_until)"
        " VALUES (gen_random_uuid(), :start, :end, 'running', now() - interval '1 h', now() - interval '1 s')"
        " RETURNING id",
        **TODAY._asdict(),
    )

    await books.compared(DAY)

    states = await rows(books, "SELECT state FROM reconciliations ORDER BY started_at")
    assert [row.state for row in states] == ["failed", "complete"]


async def test_the_job_compares_complete_hours_and_the_day_before_them(books: Bookkeeping) -> None:
    late = NOON + timedelta(minutes=29)

    first = await passed(books, late)
    nothing = await passed(books, late)
    second = await passed(books, late + timedelta(minutes=1))

    assert first == [(NOON - 25 * HOUR, DAY), (DAY, NOON - HOUR)]
    assert nothing == []
    assert second == [(NOON - 24 * HOUR, DAY), (DAY, NOON)]


async def test_after_an_outage_of_days_every_hour_is_compared_some_days_in_each_pass(
    books: Bookkeeping,
) -> None:
    await passed(books, NOON - 6 * DAYS)

    passes = [await passed(books, NOON) for _ in range(4)]

    latest = [(NOON - 25 * HOUR, DAY), (DAY, NOON - HOUR)]
    assert passes[0][:2] == latest
    assert [len(each) for each in passes] == [2 + CATCH_UP, 3, 0, 0]
    assert covered(passes) == [(NOON - 6 * DAYS - HOUR, NOON - HOUR)]


async def test_hours_whose_first_comparison_failed_are_not_lost(books: Bookkeeping) -> None:
    books.simulator.reports.failures.append(HttpError(401))
    assert await passed(books, NOON - 3 * DAYS) == []

    passes = [await passed(books, NOON) for _ in range(2)]

    assert covered(passes) == [(NOON - 4 * DAYS - HOUR, NOON - HOUR)]


async def test_a_day_that_cannot_be_read_keeps_no_other_from_being_compared(books: Bookkeeping) -> None:
    await passed(books, NOON - 6 * DAYS)
    unreadable = DAY - 4 * DAYS
    books.answered(unreadable + HOUR, {"input_tokens": 10**16})

    passes = [await passed(books, NOON) for _ in range(4)]
    known = books.simulator.reports.calls
    known[:] = [call for call in known if call.at < unreadable]
    repaired = await passed(books, NOON)

    assert covered(passes) == [
        (NOON - 6 * DAYS - HOUR, unreadable),
        (unreadable + timedelta(days=1), NOON - HOUR),
    ]
    assert repaired == [(unreadable, unreadable + timedelta(days=1))]


async def test_what_was_compared_before_it_happened_is_compared_again(books: Bookkeeping) -> None:
    """The clock was a day ahead, and the database's was not."""
    await passed(books, NOON)
    await rows(books, "UPDATE reconciliations SET started_at = window_end - interval '1 hour' RETURNING id")

    assert covered([await passed(books, NOON)]) == [(NOON - 25 * HOUR, NOON - HOUR)]


async def test_hours_that_were_compared_too_early_before_an_outage_are_compared_again(
    books: Bookkeeping,
) -> None:
    """Their reports and receipts may have been late; without an outage the next passes compare them again."""
    before = NOON - 3 * DAYS
    for at in (before, before + HOUR):
        assert len(await passed(books, at)) == 2
        await rows(books, "UPDATE reconciliations SET started_at = :at WHERE started_at > :at", at=at)

    passes = [await passed(books, NOON) for _ in range(2)]

    assert covered(passes) == [(before - 22 * HOUR, NOON - HOUR)]


async def test_reports_are_read_over_pages_and_after_failures(books: Bookkeeping) -> None:
    for minutes in range(0, 1440, 7):
        await books.both(DAY + timedelta(minutes=minutes))
    again = {"retry-after": "0"}
    books.simulator.reports.failures += [
        HttpError(429, "rate_limit_error", headers=again),
        HttpError(529, "overloaded_error"),
        HttpError(500),
    ]

    result = await books.compared(DAY)

    assert not result.differences
    assert books.simulator.reports.requests.count("usage_report/messages") > 4


@pytest.mark.parametrize("failure", [HttpError(401), HttpError(500), HttpError(400), HttpError(403)])
async def test_unreadable_reports_are_no_result(books: Bookkeeping, failure: HttpError) -> None:
    await books.both(NOON)
    await books.compared(DAY)
    books.simulator.reports.failures += [failure] * 5

    with pytest.raises(ReportsUnavailable) as raised:
        await books.compared(DAY)

    assert "secret upstream detail" not in raised.value.detail
    assert books.simulator.reports.admin_key not in raised.value.detail
    (last,) = await rows(books, "SELECT state, problem FROM reconciliations ORDER BY started_at DESC LIMIT 1")
    assert (last.state, last.problem) == ("failed", raised.value.detail)
    assert len(await rows(books, "SELECT 1 AS one FROM reconciled_usage")) == 1


async def test_without_analytics_days_are_audited_by_the_cost_report(books: Bookkeeping) -> None:
    await books.both(NOON)
    books.answered(NOON)
    books.simulator.reports.not_offered = frozenset({"analytics/usage", "analytics/cost"})

    result = await books.compared(DAY)

    assert (result.summary["costs"], result.summary["requests_reported"]) == ("cost_report", False)
    (found,) = result.differences
    assert found.cause == "no_receipt"
    assert not result.prices


async def test_without_any_costs_the_tokens_are_still_compared(books: Bookkeeping) -> None:
    books.answered(NOON)
    books.simulator.reports.not_offered = frozenset({"analytics/usage", "analytics/cost", "cost_report"})

    result = await books.compared(DAY)

    assert (len(result.differences), result.prices_audited) == (1, False)


async def test_named_keys_are_ours_also_after_a_rotation(database: Database) -> None:
    ids = (key_id(RUN_KEY), key_id(OTHER_KEY))
    async with bookkeeping(database, await an_account(database), key_ids=ids, run_key=None) as books:
        await books.both(NOON)
        books.answered(NOON, api_key=OTHER_KEY)
        await books.charged(NOON)

        assert not (await books.compared(DAY)).differences


async def test_of_keys_that_look_alike_none_is_taken_for_ours(books: Bookkeeping) -> None:
    books.answered(NOON, api_key=f"{RUN_KEY[:6]}-another{RUN_KEY[-4:]}")

    with pytest.raises(ProviderKeyUnknown):
        await books.compared(DAY)


async def test_an_unknown_key_is_an_error_and_no_foreign_usage(database: Database) -> None:
    async with bookkeeping(database, await an_account(database), run_key="sk-ant-unused") as books:
        books.answered(NOON)
        with pytest.raises(ProviderKeyUnknown):
            await books.compared(DAY)
