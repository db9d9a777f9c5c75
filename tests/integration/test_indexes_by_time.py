"""Indexes of the times by which rows are in order on disk."""

from app.platform.db import Database
from tests.integration.statements import rows


async def test_each_has_what_came_since_the_last_vacuum(database: Database) -> None:
    found = await rows(
        database,
        "SELECT relname, reloptions FROM pg_class JOIN pg_am ON pg_am.oid = relam WHERE amname = 'brin'",
    )

    options = {row.relname: row.reloptions for row in found}
    assert options.keys() == {
        "ix_charge_receipts_used_at",
        "ix_fenced_receipts_used_at",
        "ix_usage_rollups_bucket",
    }
    assert all(each == ["autosummarize=on"] for each in options.values())
