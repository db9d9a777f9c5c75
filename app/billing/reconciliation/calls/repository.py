"""SQL for calls of the gateway and unbilled messages."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import delete, insert, select, text

from app.billing.reconciliation.records import CallCounts, UnbilledMessage, Window, by_kind, counts_from
from app.billing.reconciliation.tables import gateway_calls, unbilled_messages
from app.platform.db import Reader, Transaction

_ADD_CALLS = text(
    """
    INSERT INTO gateway_calls AS held (minute, model, sent, refused)
    SELECT * FROM unnest(CAST(:minutes AS timestamptz[]), CAST(:models AS text[]),
                         CAST(:sent AS bigint[]), CAST(:refused AS bigint[]))
     ORDER BY 1, 2
    ON CONFLICT (minute, model) DO UPDATE SET
        sent = held.sent + excluded.sent, refused = held.refused + excluded.refused
    """
)


async def find_calls(reader: Reader, window: Window) -> list[CallCounts]:
    calls = gateway_calls.c
    statement = select(calls.minute.label("at"), calls.model, calls.sent, calls.refused).where(
        calls.minute >= window.start, calls.minute < window.end
    )
    return [CallCounts(**row) for row in (await reader.execute(statement)).mappings()]


async def add_calls(tx: Transaction, counts: Sequence[CallCounts]) -> None:
    arrays = {
        "minutes": [each.at for each in counts],
        "models": [each.model for each in counts],
        "sent": [each.sent for each in counts],
        "refused": [each.refused for each in counts],
    }
    await tx.execute(_ADD_CALLS, arrays)


async def delete_old_calls(tx: Transaction, *, before: datetime) -> None:
    """Forget calls of so long ago that no reconciliation needs them."""
    await tx.execute(delete(gateway_calls).where(gateway_calls.c.minute < before))


async def find_unbilled(reader: Reader, window: Window) -> list[UnbilledMessage]:
    found = unbilled_messages.c
    statement = select(found.used_at, found.model, found.counts).where(
        found.used_at >= window.start, found.used_at < window.end
    )
    rows = (await reader.execute(statement)).mappings()
    return [UnbilledMessage(row["used_at"], row["model"], counts_from(row["counts"])) for row in rows]


async def insert_unbilled(tx: Transaction, id_: UUID, message: UnbilledMessage) -> None:
    counts = by_kind(message.counts)
    await tx.execute(
        insert(unbilled_messages).values(id=id_, used_at=message.at, model=message.model, counts=counts)
    )
