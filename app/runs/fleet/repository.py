"""SQL for the state of a fleet; reads what has not ended only, however many runs have."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import text

from app.ids import RunKey
from app.platform.db import Reader
from app.runs.fleet.records import AccountQueue, ExecutedAttempt, FleetWorker, HeldRuns, QueueTotals


async def fleet_workers(reader: Reader) -> list[FleetWorker]:
    """The processes that were alive in the last hour or still have runs, the oldest first."""
    return [FleetWorker(**row._asdict()) for row in await reader.execute(_WORKERS)]


async def queue_of_accounts(reader: Reader, *, limit: int) -> tuple[QueueTotals, Sequence[AccountQueue]]:
    """The unfinished runs of all accounts, and of the `limit` accounts with the most queued ones."""
    rows = (await reader.execute(_QUEUES, {"limit": limit})).all()
    if not rows:
        return QueueTotals(0, HeldRuns(0, 0, 0), running=0, waiting=0, oldest_ready_s=None, accounts=0), []
    every = rows[0]
    totals = QueueTotals(
        ready=int(every.all_ready),
        held=HeldRuns(int(every.all_turn), int(every.all_limit), int(every.all_start_time)),
        running=int(every.all_running),
        waiting=int(every.all_waiting),
        oldest_ready_s=_seconds(every.all_oldest_ready_s),
        accounts=every.accounts,
    )
    return totals, [
        AccountQueue(
            account_id=row.account_id,
            account=row.account,
            ready=int(row.ready),
            held=int(row.held),
            running=int(row.running),
            waiting=int(row.waiting),
            oldest_ready_s=_seconds(row.oldest_ready_s),
        )
        for row in rows
    ]


async def executed_attempts(reader: Reader, run: RunKey) -> list[ExecutedAttempt]:
    """The attempts of a run, the first one first; none if there is no such run."""
    return [ExecutedAttempt(**row._asdict()) for row in await reader.execute(_ATTEMPTS, run._asdict())]


async def snapshot_time(reader: Reader) -> datetime:
    """When the snapshot's transaction began, by the database's clock."""
    now: datetime = (await reader.execute(text("SELECT now()"))).scalar_one()
    return now


def _seconds(value: object) -> float | None:
    """A number of PostgreSQL's `extract`, which is a decimal."""
    return None if value is None else float(str(value))


# A heartbeat in the future is from before the database's clock was set back: it does not count.
_WORKERS = text(
    """
    SELECT process_id, role, version, places, taken, draining, lease_s, started_at,
           seen_at AS last_heartbeat_at,
           seen_at > now() - make_interval(secs => lease_s)
               AND seen_at <= now() + make_interval(secs => lease_s) AS is_alive,
           coalesce(runs, 0) AS running, agents
      FROM workers
      LEFT JOIN (SELECT process_id, count(*) AS runs FROM runs WHERE status = 'running' GROUP BY process_id)
           AS executing USING (process_id)
     WHERE seen_at > now() - interval '1 hour' OR runs > 0
     ORDER BY started_at, process_id
    """
)

_ATTEMPTS = text(
    """
    SELECT number AS attempt,
           CASE WHEN number = runs.attempt THEN runs.process_id ELSE lost.process_id END AS process_id,
           lost.at AS taken_over_at, coalesce(lost.handed_over, false) AS handed_over
      FROM runs
      CROSS JOIN generate_series(0, runs.attempt) AS number
      LEFT JOIN run_takeovers AS lost
        ON lost.account_id = runs.account_id AND lost.run_id = runs.run_id AND lost.attempt = number
     WHERE runs.account_id = :account_id AND runs.run_id = :run_id
     ORDER BY number
    """
)

# Each part has the condition of a partial index. An account has a row for each state of its runs.
_QUEUES = text(
    """
    WITH unfinished AS (
        SELECT account_id, 'ready' AS state, count(*) AS runs, min(ready_at) AS oldest
          FROM runs WHERE status = 'queued' AND held_for IS NULL GROUP BY account_id
        UNION ALL
        SELECT account_id, held_for, count(*), NULL
          FROM runs WHERE held_for IS NOT NULL GROUP BY account_id, held_for
        UNION ALL
        SELECT account_id, 'running', count(*), NULL
          FROM runs WHERE status = 'running' GROUP BY account_id
        UNION ALL
        SELECT account_id, 'waiting', count(*), NULL
          FROM runs WHERE status = 'waiting' GROUP BY account_id
    ), by_account AS (
        SELECT account_id,
               coalesce(sum(runs) FILTER (WHERE state = 'ready'), 0) AS ready,
               coalesce(sum(runs) FILTER (WHERE state = 'turn'), 0) AS turn,
               coalesce(sum(runs) FILTER (WHERE state = 'limit'), 0) AS of_limit,
               coalesce(sum(runs) FILTER (WHERE state = 'start_time'), 0) AS start_time,
               coalesce(sum(runs) FILTER (WHERE state = 'running'), 0) AS running,
               coalesce(sum(runs) FILTER (WHERE state = 'waiting'), 0) AS waiting,
               -- Several clocks of one transaction: it may have become ready after `now()`.
               greatest(0, extract(epoch FROM now() - min(oldest))) AS oldest_ready_s
          FROM unfinished GROUP BY account_id
    )
    SELECT account_id, name AS account, ready, turn + of_limit + start_time AS held, running, waiting,
           CASE WHEN ready > 0 THEN oldest_ready_s END AS oldest_ready_s,
           count(*) OVER () AS accounts,
           sum(ready) OVER () AS all_ready, sum(turn) OVER () AS all_turn,
           sum(of_limit) OVER () AS all_limit, sum(start_time) OVER () AS all_start_time,
           sum(running) OVER () AS all_running, sum(waiting) OVER () AS all_waiting,
           max(CASE WHEN ready > 0 THEN oldest_ready_s END) OVER () AS all_oldest_ready_s
      FROM by_account JOIN accounts ON accounts.id = account_id
     ORDER BY ready + turn + of_limit + start_time DESC, running DESC, account_id
     LIMIT :limit
    """
)
