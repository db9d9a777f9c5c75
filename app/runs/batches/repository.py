"""SQL for batches and their items."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from decimal import Decimal
from uuid import UUID

from sqlalchemy import Text, TextClause, cast, delete, func, insert, select, text, update

from app.ids import AccountId, ApiKeyId, RunKey
from app.platform.db import Reader, Transaction, page_of
from app.platform.pagination import PageRequest
from app.platform.postgres.statements import locked_in_order
from app.platform.storage.records import Retention
from app.platform.storage.repository import overdue
from app.runs.batches.records import MAX_ITEMS, Batch, BatchItem, NewBatch, StartedItem, run_id_of
from app.runs.batches.tables import batch_items, batches

_BATCH = [batches.c[field.name] for field in fields(Batch)]
_ITEM = [batch_items.c[field.name] for field in fields(BatchItem)]
_items = batch_items.c
_NOTHING = Decimal(0)

_INSERT_ITEMS = text(
    """
    INSERT INTO batch_items (batch, position, account_id, custom_id, run_id, request, reserve_usd)
    SELECT :batch, position, :account, custom_id, run_id, request::json, reserve_usd::numeric
      FROM unnest(CAST(:positions AS int[]), CAST(:custom_ids AS text[]), CAST(:run_ids AS text[]),
                  CAST(:requests AS text[]), CAST(:reserves AS text[]))
           AS new (position, custom_id, run_id, request, reserve_usd)
    """
)
_CLAIM = text(
    f"""
    UPDATE batches SET step = step + 1, step_at = now() + :lease
     WHERE id IN (SELECT id FROM batches
                   WHERE ended_at IS NULL
                     -- The later times were stored before the database's clock went back.
                     AND (step_at <= now() OR step_at > now() + 10 * CAST(:lease AS interval))
                   ORDER BY step_at LIMIT 1 FOR UPDATE SKIP LOCKED)
    RETURNING {", ".join(column.name for column in _BATCH)}
    """  # noqa: S608 - names of columns
)
_WITH_RUNS = """
    SELECT position, item.account_id, item.run_id, reserve_usd, item.bytes, runs.status AS run_status,
           ended_at IS NOT NULL AS has_ended,
           coalesce(extract(epoch FROM now() - ended_at), 0)::float8 AS ended_for_s,
           coalesce((meters ->> 'gateway')::int, 0) AS messages
      FROM batch_items AS item LEFT JOIN runs USING (account_id, run_id)
     WHERE item.batch = :batch AND item.status = {status} ORDER BY position LIMIT :most
    """
_STARTED, _PENDING = text(_WITH_RUNS.format(status="'started'")), text(_WITH_RUNS.format(status="'pending'"))
_ROOM = text(
    """
    SELECT CASE WHEN EXISTS (SELECT FROM runs WHERE account_id = :account AND held_for = 'limit') THEN 0
                ELSE greatest(1, active_limit(:per_account) * 3 / 4) - active_runs(:account) END
    """
)
_SETTLE = text(
    """
    WITH settled AS (
        UPDATE batch_items AS item SET status = new.status, error = new.error, request = NULL
          FROM unnest(CAST(:positions AS int[]), CAST(:statuses AS text[]), CAST(:errors AS text[]))
               AS new (position, status, error)
         WHERE item.batch = :batch AND item.position = new.position AND item.status = 'started'
        RETURNING item.status
    )
    UPDATE batches
       SET cost_usd = cost_usd + :cost,
           succeeded = succeeded + (SELECT count(*) FROM settled WHERE status = 'succeeded'),
           failed = failed + (SELECT count(*) FROM settled WHERE status = 'failed'),
           cancelled = cancelled + (SELECT count(*) FROM settled WHERE status = 'cancelled'),
           refused = refused + (SELECT count(*) FROM settled WHERE status = 'refused')
     WHERE id = :batch
    """
)
_STOP = text(
    """
    WITH stopped AS (
        UPDATE batch_items SET status = 'cancelled', request = NULL
         WHERE batch = :batch AND status = 'pending' RETURNING 1
    )
    UPDATE batches
       SET stop_reason = :reason, pending = pending - (SELECT count(*) FROM stopped),
           cancelled = cancelled + (SELECT count(*) FROM stopped)
     WHERE id = :batch
    """
)
_START = text(
    """
    WITH started AS (
        UPDATE batch_items SET status = 'started'
         WHERE batch = :batch AND position = ANY (CAST(:positions AS int[])) AND status = 'pending'
        RETURNING 1
    )
    UPDATE batches SET pending = pending - (SELECT count(*) FROM started) WHERE id = :batch
    """
)
_END = text("UPDATE batches SET ended_at = now() WHERE id = :batch AND pending = 0")


async def move_batches(tx: Transaction, old: ApiKeyId, new: ApiKeyId) -> None:
    """Let the unfinished batches of a key go on with another one."""
    are_moved = locked_in_order(batches, batches.c.api_key_id == old, batches.c.ended_at.is_(None))
    await tx.execute(update(batches).where(are_moved).values(api_key_id=new))


async def count_active(reader: Reader, account_id: AccountId) -> int:
    is_active = (batches.c.account_id == account_id) & batches.c.ended_at.is_(None)
    return int((await reader.execute(select(func.count()).where(is_active))).scalar_one())


async def insert_batch(tx: Transaction, new: NewBatch) -> Batch:
    values = {
        "id": new.id,
        "account_id": new.account_id,
        "api_key_id": new.api_key_id,
        "graph_id": new.graph_id,
        "request_hash": new.request_hash,
        "parallelism": new.terms.parallelism,
        "max_usd": new.terms.max_usd,
        "items": len(new.items),
        "pending": len(new.items),
        "created_at": func.now(),
        "step_at": func.now(),
    }
    row = (await tx.execute(insert(batches).values(values).returning(*_BATCH))).mappings().one()
    positions = range(1, len(new.items) + 1)
    arrays = {
        "positions": list(positions),
        "custom_ids": [item.custom_id for item in new.items],
        "run_ids": [run_id_of(new.id, position) for position in positions],
        "requests": [item.request for item in new.items],
        "reserves": [str(item.reserve_usd) for item in new.items],
    }
    await tx.execute(_INSERT_ITEMS, {"batch": new.id, "account": new.account_id, **arrays})
    return Batch(**row)


async def find_batch(reader: Reader, account_id: AccountId, batch: UUID) -> Batch | None:
    statement = select(*_BATCH).where(batches.c.account_id == account_id, batches.c.id == batch)
    row = (await reader.execute(statement)).mappings().one_or_none()
    return None if row is None else Batch(**row)


async def newest_batches(reader: Reader, account_id: AccountId, page: PageRequest) -> list[Batch]:
    of_account = select(*_BATCH).where(batches.c.account_id == account_id)
    statement = page_of(of_account, page, at=batches.c.created_at, id_=batches.c.id)
    return [Batch(**row) for row in (await reader.execute(statement)).mappings()]


async def claim_batch(tx: Transaction, *, lease: timedelta) -> Batch | None:
    """The batch whose step is due the longest, if there is one; no other process gets it during the lease."""
    row = (await tx.execute(_CLAIM, {"lease": lease})).mappings().one_or_none()
    return None if row is None else Batch(**row)


async def lock_batch(tx: Transaction, batch: UUID, *, step: int | None = None) -> Batch | None:
    """The batch, locked until the transaction ends; None if it is deleted, or at another step."""
    statement = select(*_BATCH).where(batches.c.id == batch).with_for_update()
    row = (await tx.execute(statement)).mappings().one_or_none()
    return None if row is None or step not in {None, row["step"]} else Batch(**row)


async def stop_batch(tx: Transaction, batch: UUID, reason: str) -> None:
    """Let no further item of a batch that is locked be started."""
    await tx.execute(_STOP, {"batch": batch, "reason": reason})


async def end_batch(tx: Transaction, batch: UUID) -> bool:
    """Nothing more happens to a batch that is locked; False if items of it are still to be started."""
    return bool((await tx.execute(_END, {"batch": batch})).rowcount)


async def release_batch(tx: Transaction, batch: Batch, *, pause_s: float) -> None:
    """Let any process make the next step after a pause; without effect once another one has claimed it."""
    is_ours = (batches.c.id == batch.id) & (batches.c.step == batch.step)
    step_at = func.now() + timedelta(seconds=pause_s)
    await tx.execute(update(batches).where(is_ours).values(step_at=step_at))


async def started_items(reader: Reader, batch: UUID) -> list[StartedItem]:
    """The items that are started and not counted, in their order."""
    return await _with_runs(reader, _STARTED, batch, most=MAX_ITEMS)


async def pending_items(reader: Reader, batch: UUID, *, most: int) -> list[StartedItem]:
    """The next items to start."""
    return await _with_runs(reader, _PENDING, batch, most=most)


async def room_for_batches(reader: Reader, account_id: AccountId, *, per_account: int | None) -> int:
    """How many more runs of the account its batches may start.

    A quarter of what may be active stays free for other runs of the account, and none is started while such
    a run waits for a place.
    """
    values = {"account": account_id, "per_account": per_account}
    room: int = (await reader.execute(_ROOM, values)).scalar_one()
    return room


async def mark_started(tx: Transaction, batch: UUID, positions: Sequence[int]) -> None:
    """Store that these items of a batch that is locked are to be started, before they are."""
    await tx.execute(_START, {"batch": batch, "positions": positions})


async def settle_items(
    tx: Transaction,
    batch: UUID,
    settled: Sequence[tuple[int, str, str | None]],
    *,
    cost_usd: Decimal = _NOTHING,
) -> None:
    """Store the status and the error of started items of a batch that is locked, and count them.

    Their requests are deleted: a run has its own.
    """
    if settled:
        positions, statuses, errors = map(list, zip(*settled, strict=True))
        values = {"positions": positions, "statuses": statuses, "errors": errors}
        await tx.execute(_SETTLE, {"batch": batch, "cost": cost_usd, **values})


async def item_request(reader: Reader, batch: UUID, position: int) -> str | None:
    """The request of an item as JSON; None once it needs no start."""
    is_item = (_items.batch == batch) & (_items.position == position)
    statement = select(cast(_items.request, Text)).where(is_item)
    request: str | None = (await reader.execute(statement)).scalar_one_or_none()
    return request


async def items_after(reader: Reader, batch: UUID, position: int, *, most: int) -> list[BatchItem]:
    """The items behind a position that are not pending, in their order."""
    is_next = (_items.batch == batch) & (_items.position > position) & (_items.status != "pending")
    statement = select(*_ITEM).where(is_next).order_by(_items.position).limit(most)
    return [BatchItem(**row) for row in (await reader.execute(statement)).mappings()]


async def delete_batch(tx: Transaction, batch: UUID) -> None:
    await tx.execute(delete(batches).where(batches.c.id == batch))


async def delete_old_batches(tx: Transaction, by_default: Retention, *, until: datetime, most: int) -> int:
    """Delete some ended ones past their time, without their runs; returns how many."""
    rows, since = select(batches.c.id).with_for_update(skip_locked=True), [batches.c.ended_at]
    old = overdue(
        *(rows, batches.c.account_id, "contents_days"),
        since=since,
        until=until,
        by_default=by_default,
        most=most,
    )
    return (await tx.execute(delete(batches).where(batches.c.id.in_(old)))).rowcount


async def _with_runs(reader: Reader, statement: TextClause, batch: UUID, *, most: int) -> list[StartedItem]:
    rows = (await reader.execute(statement, {"batch": batch, "most": most})).mappings()
    return [
        StartedItem(run=RunKey(row.pop("account_id"), row.pop("run_id")), **row) for row in map(dict, rows)
    ]
