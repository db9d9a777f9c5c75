"""OpenMessageDelivery: writes messages in progress to the database, and bills those that were left there."""

import asyncio
from collections.abc import Iterable

import structlog

from app.billing.receipts.delivery import CLOSE_TIMEOUT_S
from app.billing.receipts.journal_records import decode_fact, if_lost
from app.billing.receipts.open_messages.in_memory import OpenMessageChanges
from app.billing.receipts.open_messages.records import OpenMessage, StoredMessage
from app.billing.receipts.open_messages.repository import (
    find_abandoned_messages,
    find_open_messages,
    write_open_messages,
)
from app.billing.receipts.queue import ReceiptQueue
from app.billing.receipts.void_messages import return_charges
from app.errors import Unavailable
from app.ids import RunKey
from app.platform.background import forever
from app.platform.clock.boot_time import boot_time
from app.platform.db import Database, DatabaseUnavailable, Reader, StatementFailed

log = structlog.get_logger(__name__)

WRITE_INTERVAL_S = 0.5
"""Messages that have grown in this time are written by one statement."""

_SWEEP_INTERVAL_S = 15.0
"""How often messages that no run in progress has begun are looked for."""

_ABANDONED_S = 30.0
"""How long such a message was not written: the process that ended its run may be storing its receipt."""

_BATCH = 1000


class OpenMessageDelivery:
    """Writes the messages in progress of this process, beside `ReceiptDelivery`, which it never delays.

    The rows are a second line: without them, messages are charged from the journal.
    """

    def __init__(self, database: Database, queue: ReceiptQueue) -> None:
        self._database = database
        self._queue = queue
        self._next_sweep = 0.0

    async def work(self) -> None:
        """Write until cancelled."""
        await forever(self._step, WRITE_INTERVAL_S, name="open_messages.write")

    async def write(self) -> None:
        """Write what has changed; raises `DatabaseUnavailable`, and it is due again."""
        changes = self._queue.open_messages.take()
        if not changes:
            return
        try:
            try:
                await self._write(changes)
            except StatementFailed as error:
                if not error.by_values:
                    raise DatabaseUnavailable.because(str(error)) from error
                await self._write_one_by_one(changes)
        except BaseException:
            # A cancelled statement may have been executed as well.
            self._queue.open_messages.put_back(changes)
            raise
        self._queue.confirm(changes)

    async def aclose(self) -> None:
        """Write once more: a message that is not charged must not stay for another process."""
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await self.write()
        except (TimeoutError, Unavailable) as error:
            log.warning("open_messages.left", reason=type(error).__name__)

    async def sweep(self, *, age_s: float = _ABANDONED_S) -> None:
        """Queue the messages of runs that have ended or are at a later attempt: no process reports them.

        After those in journals on this machine, which know more of them.
        """
        self._queue.recover()
        async with self._database.read() as reader:
            found = await find_abandoned_messages(reader, age_s=age_s, limit=_BATCH)
        _recover(self._queue, found)

    async def _step(self) -> None:
        await self.write()
        if boot_time() >= self._next_sweep:
            self._next_sweep = boot_time() + _SWEEP_INTERVAL_S
            await self.sweep()

    async def _write(self, changes: OpenMessageChanges) -> None:
        async with self._database.write() as tx:
            found = await write_open_messages(tx, changes.written, removed=changes.void | changes.stored)
        if charged := changes.void - found:
            # Without a row, another process may have charged it.
            async with self._database.transaction() as tx:
                await return_charges(tx, charged)

    async def _write_one_by_one(self, changes: OpenMessageChanges) -> None:
        await self._write(OpenMessageChanges((), changes.void, changes.stored))
        for message in changes.written:
            await self._write_or_give_up(message)

    async def _write_or_give_up(self, message: OpenMessage) -> None:
        try:
            await self._write(OpenMessageChanges([message]))
        except StatementFailed as error:
            if not error.by_values:
                raise DatabaseUnavailable.because(str(error)) from error
            # The reason says enough; the message is in the journal.
            log.warning(
                "open_message.refused", source_reference=message.fact.source_reference, reason=str(error)
            )
            self._queue.open_messages.give_up(message.fact)


async def recover_receipts(reader: Reader, queue: ReceiptQueue, run: RunKey, *, attempt: int) -> None:
    """Queue what is not charged of a run that lost its process in this attempt.

    First what the journals on this machine know; the database knows less of a message.
    """
    queue.recover()
    _recover(queue, await find_open_messages(reader, run, attempt=attempt))


def _recover(queue: ReceiptQueue, found: Iterable[StoredMessage]) -> None:
    for message in found:
        try:
            fact = if_lost(decode_fact(message.fact), is_complete=message.is_complete)
            is_new = queue.recover_message(fact)
        except Exception:
            # One that cannot be read or priced must not block the others.
            log.critical("receipt.recovery_failed", source_reference=message.source_reference, exc_info=True)
            continue
        if is_new:
            log.warning("open_message.recovered", source_reference=message.source_reference)
