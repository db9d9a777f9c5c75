"""The month in docs/BILLING.md: planted messages, compared by the command."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from app.cli.reconcile import Span, reconcile
from app.errors import Invalid
from app.platform.db import Database
from app.platform.settings import Settings
from tests.architecture.tree import ROOT
from tests.factories import an_account
from tests.integration.bookkeeping import OTHER_KEY, RUN_KEY, Bookkeeping, bookkeeping
from tests.provider.admin_reports import key_id

OCTOBER = datetime(2026, 10, 1, tzinfo=UTC)
OPUS = "claude-opus-4-8"


async def plant(books: Bookkeeping) -> None:
    """A month of messages; one is lost, one is charged twice, one is of another program."""
    for day in range(31):
        at = OCTOBER + timedelta(days=day, hours=9, minutes=day, seconds=30)
        await books.both(at)
        await books.both(at + timedelta(hours=2), {"input_tokens": 20_000, "output_tokens": 900}, model=OPUS)
    # Counted by the provider a second later, in the next minute.
    await books.charged(OCTOBER + timedelta(days=4, hours=15, seconds=59))
    books.answered(OCTOBER + timedelta(days=4, hours=15, seconds=60))
    books.answered(OCTOBER + timedelta(days=11, hours=16, minutes=20))
    await books.both(OCTOBER + timedelta(days=11, hours=16, minutes=18))
    await books.count_calls(OCTOBER + timedelta(days=11, hours=16, minutes=18), 2)
    await books.charged(
        OCTOBER + timedelta(days=20, hours=11, minutes=20, seconds=40),
        {"input_tokens": 20_000, "output_tokens": 900},
        model=OPUS,
    )
    books.answered(OCTOBER + timedelta(days=25, hours=18), {"output_tokens": 5_000}, api_key=OTHER_KEY)


def settings_of(books: Bookkeeping, database_url: str, directory: Path) -> Settings:
    return Settings.load(
        _env_file=None,
        DATABASE_URL=database_url,
        RUNTALLY_DATA_DIR=directory,
        ANTHROPIC_API_KEY=RUN_KEY,
        ANTHROPIC_ADMIN_API_KEY=books.simulator.reports.admin_key,
        ANTHROPIC_ADMIN_BASE_URL=books.simulator.url,
    )


async def test_the_months_table_is_the_one_in_the_documentation(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    printed = io.StringIO()
    async with bookkeeping(database, await an_account(database)) as books:
        await plant(books)
        settings = settings_of(books, database_url, tmp_path)
        console = Console(file=printed, width=132)
        ok = await reconcile(settings, console, Span(month="2026-10"), as_json=False)

    lines = "\n".join(line.rstrip() for line in printed.getvalue().splitlines())
    assert not ok
    assert lines in (ROOT / "docs" / "BILLING.md").read_text(encoding="utf-8"), lines


async def test_a_day_is_printed_for_programs(database: Database, database_url: str, tmp_path: Path) -> None:
    printed = io.StringIO()
    async with bookkeeping(database, await an_account(database)) as books:
        await books.both(OCTOBER)
        books.answered(OCTOBER + timedelta(days=1), api_key=OTHER_KEY)
        settings, console = settings_of(books, database_url, tmp_path), Console(file=printed)
        ok = await reconcile(settings, console, Span("2026-10-01", "2026-10-02"), as_json=True)

    found = json.loads(printed.getvalue())
    assert ok
    assert found["ok"]
    assert (found["from"], found["to"]) == ("2026-10-01T00:00:00+00:00", "2026-10-03T00:00:00+00:00")
    assert [(each["cause"], each["api_key_id"]) for each in found["differences"]] == [
        ("foreign_key", key_id(OTHER_KEY))
    ]


@pytest.mark.parametrize(
    "span", [Span(month="2026-13"), Span(month="October"), Span("2026-10-32"), Span("2999-01-01")]
)
def test_a_wrong_span_is_refused(span: Span) -> None:
    with pytest.raises(Invalid):
        span.window(end=OCTOBER)
