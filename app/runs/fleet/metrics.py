"""Fleet snapshot -> metrics; pure."""

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from app.platform.metrics.families import Family, gauge, gauges
from app.runs.fleet.records import FleetSnapshot, WorkerState


def fleet_metrics(found: FleetSnapshot) -> Iterator[Family]:
    """Workers and queue; nothing by account: each would be a series of its own."""
    totals, held = found.totals, found.totals.held
    queued = totals.ready + held.turn + held.limit + held.start_time
    yield gauge("queue_depth", "Queued runs, ready or held.", queued)
    yield gauges(
        "runs",
        "Runs that have not ended.",
        labels=["status"],
        samples=[(["queued"], queued), (["running"], totals.running), (["waiting"], totals.waiting)],
    )
    yield gauge("runs_ready", "Queued runs that any worker may start.", totals.ready)
    yield gauge(
        "oldest_ready_seconds", "Since the oldest ready run is ready; 0: none is.", totals.oldest_ready_s or 0
    )
    yield gauge("places", "Places of the workers that are alive and not draining.", found.places)
    yield gauge("places_free", "How many of them are free.", found.places_free)
    yield gauge("runs_running", "Runs that execute.", totals.running)
    yield gauges(
        "runs_held",
        "Queued runs that no worker may start yet.",
        labels=["reason"],
        samples=[(["turn"], held.turn), (["limit"], held.limit), (["start_time"], held.start_time)],
    )
    states = Counter((worker.version, worker.state) for worker in found.workers)
    yield gauges(
        "workers",
        "Processes.",
        labels=["version", "state"],
        # Also those that are 0: a metric that disappears raises no alarm.
        samples=[
            ([version, state], states[version, state])
            for version in sorted({worker.version for worker in found.workers})
            for state in get_args(WorkerState)
        ],
    )
