"""JSON of a fleet."""

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from pydantic import Field

from app.http.response_model import Moment, ResponseModel
from app.ids import AccountId
from app.runs.fleet.records import FleetSnapshot, WorkerState

_Seconds = Annotated[float | None, Field(description="Since the oldest ready run is ready; null: none is.")]


class AgentProcesses(ResponseModel):
    """CLI processes: ready for any run, kept for a conversation, being started, and executing a run."""

    ready: int
    parked: int
    starting: int
    busy: int


class FleetWorkerResponse(ResponseModel):
    """A process that uses the database."""

    process_id: UUID
    role: Annotated[str, Field(description="`serve`, `api` or `worker`.")]
    version: str
    state: WorkerState
    is_alive: Annotated[bool, Field(description="Whether its last heartbeat is younger than its lease.")]
    draining: bool
    places: int
    taken: Annotated[int, Field(description="At its last heartbeat.")]
    running: Annotated[int, Field(description="Runs that the database has as running in it.")]
    agents: Annotated[
        AgentProcesses | None, Field(description="At its last heartbeat; null: it starts none.")
    ]
    lease_s: float
    started_at: Moment
    last_heartbeat_at: Moment


class HeldRunsResponse(ResponseModel):
    """Queued runs that no worker may start yet, by what they wait for."""

    turn: int
    limit: int
    start_time: int


class FleetTotals(ResponseModel):
    """Sums of all workers and all accounts."""

    places: Annotated[int, Field(description="Of the workers that are alive and not draining.")]
    places_free: int
    runs_ready: Annotated[int, Field(description="Queued runs that any worker may start.")]
    oldest_ready_seconds: _Seconds
    runs_held: HeldRunsResponse
    runs_running: int
    runs_waiting: Annotated[int, Field(description="In no process, until a person or client answers.")]


class AccountQueueResponse(ResponseModel):
    """The runs of an account that have not ended."""

    account_id: AccountId
    account: str
    ready: int
    held: int
    running: int
    waiting: int
    oldest_ready_seconds: _Seconds


class ExecutedAttemptResponse(ResponseModel):
    """An attempt of a run, and the process that has executed it."""

    attempt: int
    process_id: Annotated[
        UUID | None,
        Field(description="Null: it waited for a person, began again in its process, or has not begun."),
    ]
    taken_over_at: Annotated[Moment | None, Field(description="When another process continued the run.")]
    handed_over: Annotated[bool, Field(description="Its process stopped in order; otherwise it was lost.")]


class RunAttemptsResponse(ResponseModel):
    """Where a run was executed, the first attempt first."""

    run_id: str
    attempts: Sequence[ExecutedAttemptResponse]


class FleetResponse(ResponseModel):
    """Workers and queue at one moment."""

    at: Moment
    workers: Sequence[FleetWorkerResponse]
    totals: FleetTotals
    accounts: Annotated[
        Sequence[AccountQueueResponse], Field(description="Those with the most queued runs first.")
    ]
    accounts_omitted: int

    @classmethod
    def of(cls, found: FleetSnapshot) -> "FleetResponse":
        totals = found.totals
        return cls.built_from(
            found,
            totals=FleetTotals.built_from(
                found,
                runs_ready=totals.ready,
                oldest_ready_seconds=totals.oldest_ready_s,
                runs_held=totals.held,
                runs_running=totals.running,
                runs_waiting=totals.waiting,
            ),
            accounts=[
                AccountQueueResponse.built_from(each, oldest_ready_seconds=each.oldest_ready_s)
                for each in found.accounts
            ],
        )
