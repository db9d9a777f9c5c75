"""Deliver what is due, in every server process, each delivery by one of them at a time."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import anyio
import structlog

from app.db import Database
from app.errors import Unavailable
from app.webhooks.delivery_repository import (
    Claimed,
    claim_due,
    forget_old,
    has_failed_for,
    note_delivered,
    note_failed,
    note_given_up,
)
from app.webhooks.message import signed
from app.webhooks.repository import DisabledReason, disable_webhook
from app.webhooks.retries import GONE, SCHEDULE, ReceiverResponse, pause_after
from app.webhooks.sender import WebhookSender

log = structlog.get_logger(__name__)

KEPT = timedelta(days=30)
_FORGET_EVERY_S = 600.0
_FORGOTTEN_AT_ONCE = 1000


@dataclass(frozen=True, slots=True)
class DeliveryPace:
    """How fast, how many at once, how long."""

    schedule: Sequence[timedelta] = SCHEDULE
    look_every_s: float = 1.0
    lease: timedelta = timedelta(minutes=1)
    """How long a claim lasts: well above the longest call, so that none is made twice meanwhile."""
    at_once: int = 32
    of_an_account: int = 8
    of_a_webhook: int = 4
    """Slow receivers fill these and leave the rest to others."""
    give_up_after: timedelta = timedelta(days=5)
    """A webhook at which nothing has arrived for so long is disabled."""


class DeliveryWorker:
    """Claims in one short transaction, calls without any, notes in another."""

    def __init__(
        self, database: Database, sender: WebhookSender, *, pace: DeliveryPace | None = None
    ) -> None:
        self._database = database
        self._sender = sender
        self._pace = pace or DeliveryPace()
        self._under_way: list[Claimed] = []
        self._room = asyncio.Event()
        self._forget_at = 0.0

    async def work(self) -> None:
        """Deliver until cancelled. What is under way then is delivered again when its claim has ended."""
        async with anyio.create_task_group() as calls:
            while True:
                claimed: list[Claimed] = []
                try:
                    await self._forget()
                    claimed = await self._claim()
                except Unavailable as error:
                    log.warning("webhooks must wait", reason=error.detail)
                except Exception:
                    # Whatever it was, the next try may go well; the server must not end of it.
                    log.exception("could not look for due webhook deliveries")
                for each in claimed:
                    self._under_way.append(each)
                    calls.start_soon(self._deliver, each)
                if not claimed:
                    await self._pause()

    async def _claim(self) -> list[Claimed]:
        pace = self._pace
        room = pace.at_once - len(self._under_way)
        self._room.clear()
        if room <= 0:
            return []
        webhooks = Counter(each.webhook_id for each in self._under_way)
        accounts = Counter(each.account_id for each in self._under_way)
        async with self._database.transaction() as tx:
            return await claim_due(
                tx,
                most=room,
                lease=pace.lease,
                busy_webhooks=[name for name, calls in webhooks.items() if calls >= pace.of_a_webhook],
                busy_accounts=[name for name, calls in accounts.items() if calls >= pace.of_an_account],
            )

    async def _pause(self) -> None:
        """Until a call ends, which may let another one begin, or it is time to look again."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pace.look_every_s):
                await self._room.wait()

    async def _deliver(self, claimed: Claimed) -> None:
        try:
            answer = await self._answer(claimed)
            if answer.accepted:
                async with self._database.transaction() as tx:
                    await note_delivered(tx, claimed, answer)
            else:
                await self._failed(claimed, answer)
        except Unavailable as error:
            # Its claim will end; then it is delivered again, with the same id.
            log.warning("could not note what became of a webhook delivery", reason=error.detail)
        except Exception:
            log.exception("a webhook delivery went wrong", delivery_id=str(claimed.id))
        finally:
            self._under_way.remove(claimed)
            self._room.set()

    async def _answer(self, claimed: Claimed) -> ReceiverResponse:
        try:
            message = signed(claimed.id, claimed.payload, claimed.secret, at=datetime.now(UTC))
            return await self._sender.send(claimed.url, message)
        except Exception:
            # An attempt like any other: it must not be made for ever.
            log.exception("a webhook could not be called", delivery_id=str(claimed.id))
            return ReceiverResponse(problem="internal")

    async def _failed(self, claimed: Claimed, answer: ReceiverResponse) -> None:
        gone = answer.status == GONE
        again_in = None if gone else pause_after(claimed.attempts, answer, self._pace.schedule)
        async with self._database.transaction() as tx:
            if again_in is not None:
                await note_failed(tx, claimed, answer, again_in=again_in)
                return
            if not await note_given_up(tx, claimed, answer):
                return
            reason: DisabledReason = "gone" if gone else "failing"
            hopeless = gone or await has_failed_for(tx, claimed.webhook_id, self._pace.give_up_after)
            disabled = hopeless and await disable_webhook(tx, claimed.webhook_id, reason)
        if disabled:
            log.warning("disabled a webhook", webhook_id=str(claimed.webhook_id), reason=reason)

    async def _forget(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._forget_at:
            return
        async with self._database.transaction() as tx:
            forgotten = await forget_old(tx, age=KEPT, most=_FORGOTTEN_AT_ONCE)
        if forgotten < _FORGOTTEN_AT_ONCE:
            self._forget_at = now + _FORGET_EVERY_S
