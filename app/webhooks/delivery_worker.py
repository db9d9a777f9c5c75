"""DeliveryWorker: delivers due webhook events; every server process has one."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import anyio
import structlog
from anyio.abc import TaskGroup

from app.errors import Unavailable
from app.platform.background import forever
from app.platform.clock.clock import Clock
from app.platform.db import Database
from app.platform.metrics.webhooks import WebhookMetrics
from app.platform.telemetry.service import Telemetry
from app.platform.telemetry.webhook_span import WebhookCall, write_delivery
from app.webhooks import delivery_repository
from app.webhooks.formats import build_message
from app.webhooks.records import ClaimedDelivery, DisabledReason
from app.webhooks.repository import disable_webhook
from app.webhooks.retries import GONE, LONGEST_WAIT, RETRY_SCHEDULE, ReceiverResponse, retry_delay
from app.webhooks.sender import WebhookSender

log = structlog.get_logger(__name__)

KEPT = timedelta(days=30)
_UPKEEP_INTERVAL_S = 600.0
_DELETE_BATCH = 1000


@dataclass(frozen=True, slots=True)
class DeliveryConfig:
    """Limits and times of the delivery worker."""

    retry_schedule: Sequence[timedelta] = RETRY_SCHEDULE
    poll_interval_s: float = 1.0
    lease: timedelta = timedelta(minutes=1)
    """How long a claim lasts; longer than the longest call, so that no call is made twice at once."""
    max_concurrent: int = 32
    max_per_account: int = 8
    max_per_webhook: int = 4
    """Slow receivers fill their own slots and leave the others free."""
    disable_after: timedelta = timedelta(days=5)
    """A webhook without a successful delivery for this long is disabled."""


class DeliveryWorker:
    """Claims deliveries in one short transaction, calls outside any, stores the results in another."""

    def __init__(
        self,
        database: Database,
        sender: WebhookSender,
        *,
        config: DeliveryConfig | None = None,
        clock: Clock | None = None,
        telemetry: Telemetry | None = None,
        metrics: WebhookMetrics | None = None,
    ) -> None:
        self._database = database
        self._metrics = metrics or WebhookMetrics()
        self._sender = sender
        self._config = config or DeliveryConfig()
        self._clock = clock or Clock()
        self._telemetry = telemetry or Telemetry()
        self._active: list[ClaimedDelivery] = []
        self._slot_free = asyncio.Event()
        self._next_upkeep = 0.0

    async def work(self) -> None:
        """Deliver until cancelled. Interrupted deliveries are made again when their claim expires."""
        async with anyio.create_task_group() as calls:
            await forever(partial(self._start_due, calls), 0, name="webhooks.deliver")

    async def _start_due(self, calls: TaskGroup) -> None:
        await self._keep_up()
        claimed = await self._claim()
        for each in claimed:
            self._active.append(each)
            calls.start_soon(self._deliver, each)
        if not claimed:
            await self._wait_for_work()

    async def _claim(self) -> list[ClaimedDelivery]:
        config = self._config
        free_slots = config.max_concurrent - len(self._active)
        self._slot_free.clear()
        if free_slots <= 0:
            return []
        webhooks = Counter(each.webhook_id for each in self._active)
        accounts = Counter(each.account_id for each in self._active)
        async with self._database.transaction() as tx:
            return await delivery_repository.claim_due_deliveries(
                tx,
                limit=free_slots,
                lease=config.lease,
                excluded_webhooks=[
                    name for name, calls in webhooks.items() if calls >= config.max_per_webhook
                ],
                excluded_accounts=[
                    name for name, calls in accounts.items() if calls >= config.max_per_account
                ],
            )

    async def _wait_for_work(self) -> None:
        """Wait until a call ends, which may free a slot, or for the poll interval."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.poll_interval_s):
                await self._slot_free.wait()

    async def _deliver(self, claimed: ClaimedDelivery) -> None:
        started_ns = time.time_ns()
        try:
            response = await self._attempt(claimed)
            write_delivery(self._telemetry, _traced(claimed, response, started_ns))
            if response.accepted:
                async with self._database.transaction() as tx:
                    await delivery_repository.record_delivered(tx, claimed, response)
                self._metrics.called("delivered")
            else:
                await self._failed(claimed, response)
        except Unavailable as error:
            # The claim expires, and the delivery is made again with the same id.
            self._metrics.called("unrecorded")
            log.warning("webhook.result_not_recorded", reason=error.detail)
        except Exception:
            self._metrics.called("unrecorded")
            log.exception("webhook.delivery_failed", delivery_id=str(claimed.id))
        finally:
            self._active.remove(claimed)
            self._slot_free.set()

    async def _attempt(self, claimed: ClaimedDelivery) -> ReceiverResponse:
        try:
            # Receivers refuse what was signed at another time than theirs.
            return await self._sender.send(claimed.url, build_message(claimed, at=self._clock.now()))
        except Exception:
            # Counted as a failed attempt, so that it is not repeated for ever.
            log.exception("webhook.call_failed", delivery_id=str(claimed.id))
            return ReceiverResponse(problem="internal")

    async def _failed(self, claimed: ClaimedDelivery, response: ReceiverResponse) -> None:
        gone = response.status == GONE
        retry_in = None if gone else retry_delay(claimed.attempts, response, self._config.retry_schedule)
        if retry_in is not None:
            async with self._database.transaction() as tx:
                await delivery_repository.record_failed_attempt(tx, claimed, response, retry_in=retry_in)
            self._metrics.called("retried")
            return
        reason: DisabledReason = "gone" if gone else "failing"
        async with self._database.transaction() as tx:
            if not await delivery_repository.record_final_failure(tx, claimed, response):
                return
            give_up = gone or await delivery_repository.has_failed_for(
                tx, claimed.webhook_id, self._config.disable_after
            )
            disabled = give_up and await disable_webhook(tx, claimed.webhook_id, reason)
        self._metrics.called("failed")
        if disabled:
            log.warning("webhook.disabled", webhook_id=str(claimed.webhook_id), reason=reason)

    async def _keep_up(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._next_upkeep:
            return
        async with self._database.transaction() as tx:
            await delivery_repository.bring_forward(tx, longest=LONGEST_WAIT)
            deleted = await delivery_repository.delete_old_deliveries(
                tx, age=KEPT, until=self._clock.now(), limit=_DELETE_BATCH
            )
        if deleted < _DELETE_BATCH:
            self._next_upkeep = now + _UPKEEP_INTERVAL_S


def _traced(claimed: ClaimedDelivery, response: ReceiverResponse, started_ns: int) -> WebhookCall:
    run_id = claimed.payload["data"].get("runId")
    return WebhookCall(
        event=claimed.payload["type"],
        webhook_id=str(claimed.webhook_id),
        delivery_id=str(claimed.id),
        account_id=str(claimed.account_id),
        run_id=run_id,
        attempt=claimed.attempts,
        started_ns=started_ns,
        status=response.status,
        problem=None if response.accepted else str(response.status or response.problem),
    )
