"""Checks what is in the database: sealed chains, live workers, and whether notifications arrive."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from app.billing.chain.sealing import SealStatus, seal_status
from app.billing.chain.sealing_key import SealingKey
from app.doctor.report import Check
from app.platform.background import first_of
from app.platform.db import Database
from app.platform.settings import Settings
from app.runs.fleet.records import FleetSnapshot
from app.runs.fleet.service import Fleet

_OF_OTHERS = 0o077


async def check_chain(settings: Settings, database: Database | None) -> Check:
    """Whether roots are signed, and the newest one is no older than it should be."""
    path = settings.sealing_key_file
    if path is None:
        message = "roots of receipts and ledger are not signed: RUNTALLY_SEALING_KEY_FILE is not set"
        return Check("chain", "warning", message)
    key = SealingKey.read(path)
    if _open_to_others(path):
        return Check("chain", "warning", f"RUNTALLY_SEALING_KEY_FILE: others may read {path}; chmod 600 it")
    if database is None:
        return Check("chain", "error", "not checked: it needs the database")
    status = await seal_status(database)
    late = _is_late(status, timedelta(seconds=settings.sealing_interval_s), now=datetime.now(UTC))
    newest = status.newest
    sealed = "no root yet" if newest is None else f"root {newest.number} of {newest.made_at:%Y-%m-%d %H:%M}"
    detail = f"key {key.id}; {sealed} UTC; {status.unsealed} entries are not sealed yet"
    return Check("chain", "warning" if late else "ok", detail)


def _open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & _OF_OTHERS)


def _is_late(status: SealStatus, every: timedelta, *, now: datetime) -> bool:
    """Whether no server has sealed new entries for two intervals."""
    return status.newest is not None and status.unsealed > 0 and now - status.newest.made_at > 2 * every


async def check_fleet(database: Database | None) -> list[Check]:
    """The live workers and their versions; warnings about runs that no worker can execute or has ended."""
    if database is None:
        return [Check("fleet", "error", "not checked: it needs the database")]
    found = await Fleet(database).snapshot(accounts=1)
    return [_overview(found), *(Check("fleet", "warning", problem) for problem in _problems(found))]


def _overview(found: FleetSnapshot) -> Check:
    live = [worker for worker in found.workers if worker.is_alive]
    held, totals = found.totals.held, found.totals
    held_runs = held.turn + held.limit + held.start_time
    runs = f"{totals.ready} runs ready, {held_runs} held, {totals.running} running"
    if not live:
        return Check("fleet", "ok", f"no server process is alive; {runs}")
    versions = Counter(worker.version for worker in live)
    listed = ", ".join(f"{count} of version {version}" for version, count in sorted(versions.items()))
    notice = "; the versions differ: a deployment is not complete" if len(versions) > 1 else ""
    detail = f"{listed}: {found.places} places, {found.places_free} free; {runs}{notice}"
    return Check("fleet", "ok", f"server processes alive: {detail}")


def _problems(found: FleetSnapshot) -> Iterator[str]:
    if found.totals.ready and not found.places:
        yield f"{found.totals.ready} runs are ready and no process that executes runs is alive: start one"
    for worker in found.workers:
        if worker.state == "silent" and worker.running:
            silent_s = (found.at - worker.last_heartbeat_at).total_seconds()
            yield (
                f"process {worker.process_id} has {worker.running} running runs and sent its last heartbeat "
                f"{silent_s:.0f} s ago, which counts for {worker.lease_s:.0f} s: a live one takes them over"
            )


_FOUND = {
    "ok": "notifications of runs that wait arrive",
    "polled": "notifications do not pass through it, so runs that wait are found within a second; "
    "set DATABASE_DIRECT_URL to the database past it",
    "unavailable": "no notification arrives, so runs that wait are found within a second; correct "
    "DATABASE_DIRECT_URL, which must lead past poolers in transaction mode",
}


async def check_notifications(database: Database) -> Check:
    """Listen as servers do, until it is known whether that works."""
    listening = database.listen("runtally_doctor", lambda _: None)
    await first_of(listening, database.notifications.known.wait())
    state = database.notifications.state
    between = "a connection pooler is before the database" if database.is_pooled else "no pooler is between"
    return Check("notifications", "ok" if state == "ok" else "warning", f"{between}; {_FOUND[state]}")
