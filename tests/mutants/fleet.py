"""Faults planted in what operators see of a fleet, and in the deletion of events."""

from tests.mutants.mutant import Mutant

_FLEET = ("tests/integration/test_fleet.py",)
_RETENTION = ("tests/integration/test_events_retention.py",)
_REPOSITORY = "app/runs/fleet/repository.py"
_READER = "app/runs/events/reader.py"

FLEET = (
    Mutant(
        "a worker whose clock was set back is shown as alive",
        _REPOSITORY,
        "\n               AND seen_at <= now() + make_interval(secs => lease_s) AS is_alive",
        " AS is_alive",
        _FLEET,
    ),
    Mutant(
        "sums are of the listed accounts only",
        _REPOSITORY,
        "sum(running) OVER () AS all_running",
        "running AS all_running",
        _FLEET,
    ),
    Mutant(
        "the state of a fleet reads every run that ever ended",
        _REPOSITORY,
        "FROM runs WHERE status = 'running' GROUP BY account_id",
        "FROM runs WHERE status || '' = 'running' GROUP BY account_id",
        _FLEET,
    ),
    Mutant(
        "places of workers that take no runs are free",
        "app/runs/fleet/records.py",
        ' if self.state == "alive" else 0',
        "",
        _FLEET,
    ),
    Mutant(
        "every key may see the fleet",
        "app/http/api/fleet/routes.py",
        "import Admin, ServicesDep",
        "import RunReader as Admin, ServicesDep",
        ("tests/architecture/test_documented_scopes.py",),
    ),
    Mutant(
        "the doctor does not notice that no worker is alive",
        "app/doctor/fleet.py",
        "if found.totals.ready and not found.places:",
        "if found.totals.ready and not found.workers:",
        _FLEET,
    ),
    Mutant(
        "a replay of a run without events never ends",
        _READER,
        "if end := _placed(await self._end_of_deleted(run), max(position, after)):",
        "if end := ():",
        _RETENTION,
    ),
    Mutant(
        "a reader that resumes gets the end at positions it has passed",
        _READER,
        "before = LAST_POSITION - len(end) if after else 0",
        "before = 0",
        _RETENTION,
    ),
    Mutant(
        "an empty answer is made of deleted contents",
        _READER,
        "has_content=record.contents_deleted_at is None",
        "has_content=True",
        _RETENTION,
    ),
    Mutant(
        "a sweep reads the runs of earlier sweeps",
        "app/runs/deletion/repository.py",
        "runs.c.events_deleted_at.is_(None), older",
        "runs.c.run_id.is_not(None), older",
        _RETENTION,
    ),
    Mutant(
        "the retention of events is set without effect",
        "app/bootstrap/services.py",
        "keep_events=timedelta(days=days_of_events) if days_of_events else None",
        "keep_events=None",
        ("tests/integration/test_http_storage.py",),
    ),
    Mutant(
        "processes that died without runs are never forgotten",
        "app/runs/recovery/service.py",
        "            await delete_dead_workers(tx)",
        "            pass",
        _FLEET,
    ),
)
