"""Counts the calls that leave through the gateway: they show whether a missing receipt was our call."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime

import structlog

from app.billing.prices.model_names import undated_name
from app.billing.reconciliation.calls.repository import add_calls, insert_unbilled
from app.billing.reconciliation.records import MINUTE, CallCounts, UnbilledMessage, counts_of_usage, floor_to
from app.errors import Unavailable
from app.ids import new_uuid
from app.platform.background import forever
from app.platform.db import Database
from app.usage.records import TokenUsage

log = structlog.get_logger(__name__)

FLUSH_S = 10.0
CLOSE_S = 3.0


class CallCounter:
    """Counts in memory; `watch` adds the counts to the database."""

    def __init__(self, database: Database, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._now = now
        self._sent: Counter[tuple[datetime, str]] = Counter()
        self._refused: Counter[tuple[datetime, str]] = Counter()

    def count_sent(self, model: str) -> None:
        """The prompt of a call was sent to the provider completely."""
        self._sent[self._key(model)] += 1

    def count_refused(self, model: str) -> None:
        """The provider responded to such a call with an error."""
        self._refused[self._key(model)] += 1

    async def flush(self) -> None:
        """Add what was counted to the database; what cannot be added is kept."""
        sent, self._sent = self._sent, Counter()
        refused, self._refused = self._refused, Counter()
        keys = sorted({*sent, *refused})
        if not keys:
            return
        try:
            async with self._database.transaction() as tx:
                await add_calls(
                    tx, [CallCounts(at, model, sent[at, model], refused[at, model]) for at, model in keys]
                )
        except BaseException:
            self._sent.update(sent)
            self._refused.update(refused)
            raise

    async def watch(self) -> None:
        """Flush until cancelled."""
        await forever(self.flush, FLUSH_S, name="gateway_calls")

    async def aclose(self) -> None:
        """Flush once more; counts that cannot be stored are lost, and only explain differences."""
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.flush()
        except (TimeoutError, Unavailable):
            log.warning("gateway_calls.not_stored", calls=self._sent.total())

    def _key(self, model: str) -> tuple[datetime, str]:
        return floor_to(self._now(), MINUTE), undated_name(model)


async def record_unbilled(database: Database, model: str, usage: TokenUsage, *, at: datetime) -> None:
    """Record a message that no account is charged for: the provider's report contains it."""
    message = UnbilledMessage(at, undated_name(model), counts_of_usage(usage))
    async with database.transaction() as tx:
        await insert_unbilled(tx, new_uuid(), message)
