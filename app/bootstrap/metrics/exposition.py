"""Opens the answer to scrapes: what is read from parts of this process, and from the database."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from app.billing.reconciliation.statements.metrics import reconciliation_metrics
from app.billing.reconciliation.statements.records import OperatorStatement
from app.billing.reconciliation.statements.service import ReconciliationStatements
from app.bootstrap.infrastructure import Infrastructure
from app.bootstrap.runs import OpenedRuns
from app.platform.metrics.exposition import Exposition, Neighbours
from app.platform.metrics.families import Family, KnownNames, counters, gauges
from app.platform.metrics.readings import Reading
from app.platform.telemetry.clients.relay import RESULTS, ClientRelay, Signal
from app.runs.fleet.metrics import fleet_metrics
from app.runs.fleet.service import Fleet
from app.runs.supervisor import RunSupervisor
from app.streams.relayed import RelayedEventLog
from app.webhooks.metrics import backlog_metrics
from app.webhooks.service import Webhooks

PERIOD = timedelta(days=31)
"""Of the comparison with the provider's reports."""

MAX_AGE_S = 2.0
RECONCILIATION_MAX_AGE_S = 60.0
"""It sums a month, and changes every few minutes at most."""

_NO_AGENT: Mapping[str, float] = {"ready": 0, "parked": 0, "starting": 0, "busy": 0}


async def open_exposition(
    infra: Infrastructure,
    stack: AsyncExitStack,
    opened: OpenedRuns,
    *,
    webhooks: Webhooks,
    neighbours: Neighbours | None,
) -> Exposition:
    """The answer to scrapes."""
    database = infra.database
    statements = ReconciliationStatements(database)
    parts = database_parts(Fleet(database), webhooks, statements, infra.metrics.models)
    _add_gauges(infra, opened.supervisor)
    infra.tasks.start_soon(infra.metrics.event_loop.watch)
    exposition = Exposition(infra.metrics.registry, parts, neighbours=neighbours)
    stack.push_async_callback(exposition.aclose)
    if neighbours is not None:
        await stack.enter_async_context(neighbours.answered(exposition.own_text))
    return exposition


def database_parts(
    fleet: Fleet,
    webhooks: Webhooks,
    statements: ReconciliationStatements,
    models: KnownNames,
    *,
    max_age_s: float = MAX_AGE_S,
    reconciliation_max_age_s: float = RECONCILIATION_MAX_AGE_S,
) -> list[Reading[Any]]:
    async def read_statement() -> OperatorStatement:
        return await statements.for_operators(since=datetime.now(UTC) - PERIOD)

    return [
        # By account nothing is shown: each would be a series of its own.
        Reading("fleet", partial(fleet.snapshot, accounts=1), fleet_metrics, max_age_s=max_age_s),
        Reading("webhooks", webhooks.backlog, backlog_metrics, max_age_s=max_age_s),
        Reading(
            "reconciliation",
            read_statement,
            partial(reconciliation_metrics, models=models),
            max_age_s=reconciliation_max_age_s,
        ),
    ]


def _add_gauges(infra: Infrastructure, supervisor: RunSupervisor) -> None:
    """What parts of this process know of themselves."""
    registry, memory, pool = infra.metrics.registry, infra.memory, infra.database.use
    registry.add_gauge(
        "runs_active", "Runs that this process executes.", lambda: len(supervisor.active_attempts())
    )
    starter = None if infra.agent is None else infra.agent.starter

    def count_processes() -> Mapping[str, float]:
        return _NO_AGENT if starter is None else starter.counts()

    registry.add(lambda: [_cli_processes(count_processes())])
    registry.add_gauge(
        "pool_ready", "CLI processes that are ready for any run.", lambda: count_processes()["ready"]
    )
    registry.add_gauge("database_connections_in_use", "Connections in use.", lambda: pool.in_use)
    registry.add_gauge("database_connections_limit", "Connections there may be.", lambda: pool.size)
    notifications = infra.database.notifications
    registry.add_gauge(
        "database_notifications",
        "Whether notifications of the database arrive.",
        lambda: notifications.state == "ok",
    )
    registry.add_gauge("database_failing", "Whether statements fail.", lambda: infra.database.is_failing)
    registry.add_gauge("database_waiting", "What waits for a connection.", lambda: pool.waiting)
    reading = infra.reading
    registry.add_gauge(
        "read_database_available",
        "Whether the replica is used; 1 without one.",
        lambda: reading.problem is None,
    )
    registry.add_gauge("read_database_lag_seconds", "How far the replica was behind.", lambda: reading.lag_s)
    registry.add_gauge("memory_resident_bytes", "Memory of this process.", memory.resident_bytes)
    registry.add_gauge(
        "memory_ceiling_bytes", "Above it, this process starts no run.", lambda: memory.max_bytes
    )
    log = infra.log
    registry.add_gauge(
        "event_log_lag_seconds",
        "For how long the relay has lacked the oldest event that it lacks.",
        lambda: log.lag_s if isinstance(log, RelayedEventLog) else 0.0,
    )
    registry.add_gauge(
        "relay_available",
        "Whether the relay has carried what was sent last; 1 without one.",
        lambda: not isinstance(log, RelayedEventLog) or log.problem is None,
    )
    _add_receipts(infra)
    registry.add(lambda: [_client_telemetry(infra.telemetry.clients)])


def _cli_processes(counts: Mapping[str, float]) -> Family:
    samples = [([state], number) for state, number in counts.items()]
    return gauges("cli_processes", "CLI processes of this process.", labels=["state"], samples=samples)


def _client_telemetry(relays: Mapping[Signal, ClientRelay]) -> Family:
    return counters(
        "client_telemetry_exports",
        "Exports of telemetry of clients' own agents.",
        labels=["signal", "result"],
        samples=[
            ([signal, result], relay.results[result])
            for signal, relay in relays.items()
            for result in RESULTS
        ],
    )


def _add_receipts(infra: Infrastructure) -> None:
    registry, receipts = infra.metrics.registry, infra.receipts
    registry.add_gauge(
        "journal_pending", "Messages in the journal without a receipt.", lambda: receipts.journalled
    )
    registry.add_gauge(
        "journal_pending_bytes", "Size of the journal's files.", lambda: receipts.journal_bytes
    )
    registry.add_gauge(
        "disk_writable", "Whether files of runs can be created.", lambda: infra.disk.is_writable
    )
    registry.add_gauge("journal_writable", "Whether it can be written.", lambda: receipts.ready)
    registry.add_gauge(
        "journal_damaged_files",
        "Damaged files that are kept aside, and journals that cannot be read.",
        lambda: receipts.damaged_files,
    )
    registry.add_gauge("receipts_pending", "Receipts that wait for the database.", lambda: len(receipts))
    registry.add_gauge("receipts_refused", "Receipts that the database refuses.", lambda: receipts.refused)
    registry.add_gauge(
        "receipts_oldest_pending_seconds",
        "For how long the oldest receipt has waited; 0: none waits.",
        lambda: receipts.oldest_s,
    )
