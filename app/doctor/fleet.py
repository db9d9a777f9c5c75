"""Checks whether processes on the database can execute what waits for them."""

from collections import Counter
from collections.abc import Iterator

from app.doctor.report import Check
from app.platform.db import Database
from app.runs.fleet.records import FleetSnapshot
from app.runs.fleet.service import Fleet

_NAME = "fleet"


async def check_fleet(database: Database | None) -> list[Check]:
    """The live workers and their versions; warnings about runs that no worker can execute or has ended."""
    if database is None:
        return [Check(_NAME, "error", "not checked: it needs the database")]
    found = await Fleet(database).snapshot(accounts=1)
    return [_overview(found), *(Check(_NAME, "warning", problem) for problem in _problems(found))]


def _overview(found: FleetSnapshot) -> Check:
    live = [worker for worker in found.workers if worker.is_alive]
    held, totals = found.totals.held, found.totals
    held_runs = held.turn + held.limit + held.start_time
    runs = f"{totals.ready} runs ready, {held_runs} held, {totals.running} running"
    if not live:
        return Check(_NAME, "ok", f"no server process is alive; {runs}")
    versions = Counter(worker.version for worker in live)
    listed = ", ".join(f"{count} of version {version}" for version, count in sorted(versions.items()))
    notice = "; the versions differ: a deployment is not complete" if len(versions) > 1 else ""
    detail = f"{listed}: {found.places} places, {found.places_free} free; {runs}{notice}"
    return Check(_NAME, "ok", f"server processes alive: {detail}")


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
