"""SQL for calls that wait, and for runs that wait with them in no process."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Text, bindparam, cast, delete, select, text, tuple_

from app.events import MeterReport, ResolvedBy
from app.executors.waiting.port import StoredCall
from app.ids import AccountId, RunId, RunKey
from app.platform.db import Reader, Transaction
from app.platform.serialization.stored_json import dump_json
from app.runs.records import StoredEvents
from app.runs.repository import STORE_EVENTS, STORE_REPORT, event_values, report_values
from app.runs.tables import run_waits, runs


async def insert_call(tx: Transaction, key: RunKey, call: StoredCall, *, attempt: int) -> bool:
    """Store a call of this attempt; False if it does not execute the run any more."""
    values = {
        **key._asdict(),
        "attempt": attempt,
        "call_id": call.call_id,
        "kind": call.kind,
        "tool_call_id": call.tool_call_id,
        "request": dump_json(call.request),
        "expires_at": call.expires_at,
    }
    return (await tx.execute(_INSERT, values)).first() is not None


async def lock_execution(tx: Transaction, key: RunKey, *, attempt: int) -> bool:
    """Whether this attempt executes the run; then it does so until the transaction ends."""
    return (await tx.execute(_LOCK_EXECUTION, {**key._asdict(), "attempt": attempt})).first() is not None


async def resolve_call(
    tx: Transaction, key: RunKey, call_id: str, *, resolved_by: ResolvedBy, answer: object
) -> bool:
    """Resolve a call that waits; False if there is none with this id. The run's row is locked."""
    values = {
        **key._asdict(),
        "call_id": call_id,
        "resolved_by": resolved_by,
        "answer": dump_json(answer) if resolved_by == "decided" else None,
    }
    return (await tx.execute(_RESOLVE, values)).first() is not None


async def grant_calls(tx: Transaction, key: RunKey, tool_id: str) -> None:
    """Resolve the calls of a tool that wait, as far as they may be granted. The run's row is locked."""
    await tx.execute(_GRANT, {**key._asdict(), "tool_id": tool_id})


async def find_call(reader: Reader, key: RunKey, call_id: str) -> StoredCall | None:
    found = await reader.execute(_CALLS.where(run_waits.c.call_id == call_id), key._asdict())
    row = found.one_or_none()
    return None if row is None else StoredCall(**row._asdict())


async def calls_of(reader: Reader, key: RunKey) -> list[StoredCall]:
    rows = await reader.execute(_CALLS.order_by(run_waits.c.requested_at), key._asdict())
    return [StoredCall(**row._asdict()) for row in rows]


async def parked_state(reader: Reader, key: RunKey) -> str | None:
    """What the run's next attempt goes on with, as JSON; None if it was not parked, or has gone on."""
    # As text, like the request: it may be large.
    statement = select(cast(runs.c.parked, Text)).where(
        runs.c.account_id == key.account_id, runs.c.run_id == key.run_id
    )
    state: str | None = (await reader.execute(statement)).scalar_one_or_none()
    return state


async def begin_parked(tx: Transaction, key: RunKey, *, attempt: int) -> bool:
    """What the run was parked with is used from now on; False if another attempt executes it."""
    return (await tx.execute(_BEGIN, {**key._asdict(), "attempt": attempt})).first() is not None


async def park_run(
    tx: Transaction,
    key: RunKey,
    *,
    attempt: int,
    state: Mapping[str, Any],
    calls: Sequence[str],
    report: MeterReport | None,
    events: Sequence[StoredEvents],
) -> bool:
    """Let a run wait in no process, for the answers to these calls; its next attempt goes on with the state.

    False if this attempt does not execute it any more.
    """
    values = {
        **key._asdict(),
        "attempt": attempt,
        "state": dump_json(state),
        "calls": calls,
        **report_values(report),
        **event_values(events),
    }
    return (await tx.execute(_PARK, values)).first() is not None


async def requeue_answered(tx: Transaction, key: RunKey) -> bool:
    """Queue a waiting run, whose row is locked, if none of its calls waits; it is not ready yet."""
    return (await tx.execute(_REQUEUE, key._asdict())).first() is not None


async def lock_expired(tx: Transaction) -> RunKey | None:
    """A waiting run with a call whose time is up, locked; None if there is none that is not."""
    row = (await tx.execute(_EXPIRED)).one_or_none()
    return None if row is None else RunKey(AccountId(row.account_id), RunId(row.run_id))


async def expire_calls(tx: Transaction, key: RunKey) -> None:
    """Resolve the calls of a waiting run, whose row is locked, whose time is up."""
    await tx.execute(_EXPIRE, key._asdict())


async def delete_calls(tx: Transaction, keys: Sequence[RunKey]) -> None:
    """Delete the calls of runs that have ended: they quote their contents."""
    await tx.execute(delete(run_waits).where(tuple_(run_waits.c.account_id, run_waits.c.run_id).in_(keys)))


_CALLS = select(
    run_waits.c.call_id,
    run_waits.c.kind,
    run_waits.c.tool_call_id,
    run_waits.c.request,
    run_waits.c.expires_at,
    run_waits.c.resolved_by,
    run_waits.c.answer,
    run_waits.c.parked.label("is_parked"),
).where(
    run_waits.c.account_id == bindparam("account_id"),
    run_waits.c.run_id == bindparam("run_id"),
)
_INSERT = text(
    """
    INSERT INTO run_waits (account_id, run_id, call_id, kind, tool_call_id, request, expires_at)
    SELECT account_id, run_id, :call_id, :kind, CAST(:tool_call_id AS text), CAST(:request AS json),
           CAST(:expires_at AS timestamptz)
      FROM runs
     WHERE account_id = :account_id AND run_id = :run_id AND attempt = :attempt AND status = 'running'
    RETURNING call_id
    """
)
_LOCK_EXECUTION = text(
    """
    SELECT run_id FROM runs
     WHERE account_id = :account_id AND run_id = :run_id AND attempt = :attempt AND status = 'running'
       FOR SHARE
    """
)
_RESOLVE = text(
    """
    UPDATE run_waits
       SET resolved_by = :resolved_by, answer = CAST(:answer AS json), resolved_at = now()
     WHERE account_id = :account_id AND run_id = :run_id AND call_id = :call_id AND resolved_by IS NULL
    RETURNING call_id
    """
)
_GRANT = text(
    """
    UPDATE run_waits SET resolved_by = 'granted', resolved_at = now()
     WHERE account_id = :account_id AND run_id = :run_id AND resolved_by IS NULL AND kind = 'permission'
       AND request ->> 'toolName' = :tool_id AND request ->> 'grantable' = 'true'
    """
)
_BEGIN = text(
    """
    WITH begun AS (
        UPDATE runs SET parked = NULL
         WHERE account_id = :account_id AND run_id = :run_id AND attempt = :attempt AND status = 'running'
        RETURNING account_id, run_id
    ), taken AS (
        UPDATE run_waits SET parked = false FROM begun
         WHERE run_waits.account_id = begun.account_id AND run_waits.run_id = begun.run_id AND parked
    )
    SELECT run_id FROM begun
    """
)
_PARK = text(
    f"""
    WITH ended AS (
        UPDATE runs
           SET status = 'waiting', attempt = attempt + 1, process_id = NULL, parked = CAST(:state AS json),
               parked_at = now(), {STORE_REPORT},
               -- An interruption is over; a cancellation that is only stored ends the run while it waits.
               interruption = CASE WHEN interruption ->> 'kind' = 'cancel' THEN interruption END
         WHERE account_id = :account_id AND run_id = :run_id AND attempt = :attempt AND status = 'running'
        RETURNING account_id, run_id, now() AS ended_at
    ), left_open AS (
        UPDATE run_waits SET parked = true FROM ended
         WHERE run_waits.account_id = ended.account_id AND run_waits.run_id = ended.run_id
           AND call_id = ANY(CAST(:calls AS text[]))
    ), stored AS ({STORE_EVENTS})
    SELECT run_id FROM ended
    """  # noqa: S608 - a constant
)
_REQUEUE = text(
    """
    UPDATE runs
       SET status = 'queued', held_for = 'limit', rank = 0, offered_to = NULL, offered_until = NULL,
           submitted_at = NULL, parked_s = parked_s + extract(epoch FROM now() - parked_at)
     WHERE account_id = :account_id AND run_id = :run_id AND status = 'waiting'
       AND NOT EXISTS (
           SELECT FROM run_waits
            WHERE run_waits.account_id = runs.account_id AND run_waits.run_id = runs.run_id
              AND run_waits.parked AND resolved_by IS NULL)
    RETURNING run_id
    """
)
_EXPIRED = text(
    """
    SELECT runs.account_id, runs.run_id FROM run_waits JOIN runs USING (account_id, run_id)
     WHERE resolved_by IS NULL AND run_waits.parked AND expires_at <= now() AND status = 'waiting'
     LIMIT 1 FOR UPDATE OF runs SKIP LOCKED
    """
)
_EXPIRE = text(
    """
    UPDATE run_waits SET resolved_by = 'expired', resolved_at = now()
     WHERE account_id = :account_id AND run_id = :run_id AND resolved_by IS NULL AND expires_at <= now()
    """
)
