"""Reports are planned for their account and their time, however often a connection has made them."""

from datetime import UTC, datetime, timedelta

from app.billing.chain.sums.comparison import wrong_sums
from app.billing.receipts.records import ReceiptFilter
from app.billing.reports.records import UsageFilter
from app.billing.reports.service import BillingReports, UsageQuery
from app.platform.db import Database
from app.platform.pagination import PageRequest
from tests.factories import an_account
from tests.integration.statements import rows

OFTEN = 8
"""From the sixth time on PostgreSQL may use one plan for all values."""
PLANS = """
    SELECT coalesce(sum(custom_plans), 0) AS custom, coalesce(sum(generic_plans), 0) AS generic
      FROM pg_prepared_statements
     WHERE statement LIKE '%FROM charge_receipts%' AND statement NOT LIKE '%pg_prepared%'
"""


async def test_no_report_has_a_plan_for_all_values(database_url: str) -> None:
    # One connection: plans are kept for each.
    database = await Database.open(database_url, pool_size=1)
    try:
        account, reports = (await an_account(database)).account_id, BillingReports(database)
        now = datetime.now(UTC)
        for _ in range(OFTEN):
            await reports.usage(account, UsageQuery("day", UsageFilter(now - timedelta(days=365), now)))
            await reports.search(account, ReceiptFilter(model="claude"), PageRequest(50))
            await wrong_sums(database, account)

        (plans,) = await rows(database, PLANS)
        assert plans.generic == 0
        assert plans.custom >= 3 * OFTEN
    finally:
        await database.aclose()
