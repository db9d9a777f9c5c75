"""What is different where a session's run is accepted: its graph, its plan, and that it never waits."""

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from app.errors import TooMany, Unavailable
from app.executors.external.executor import PROVIDER
from app.executors.port import FIRST_ATTEMPT, RunPlan
from app.gateway.client.request import ClientRequest
from app.graphs.spec import GraphSpec
from app.platform.db import NothingStored, Transaction
from app.requests.messages import Message
from app.requests.principal import Principal
from app.requests.run_request import GraphRunRequest, RunLimits
from app.runs.dispatch.insertion.records import StoredAtOnce
from app.runs.dispatch.insertion.repository import insert_run
from app.runs.dispatch.limits import RETRY_AFTER_S
from app.runs.dispatch.queue import RunQueue
from app.runs.external.repository import count_running
from app.runs.records import NewRun, RunRecord
from app.runs.requests.posted import PostedRun
from app.usage.records import Attribution

GRAPH: Final = GraphSpec(
    name="anthropic",
    provider=PROVIDER,
    description="Clients' own agents, by the Messages API.",
    system_prompt="Each agent has its own.",
)
"""In no catalog: no request can name it, and a key that is limited to graphs must."""

_NO_LIMIT: Final = 2**31 - 1

LONGEST: Final = timedelta(days=1)


class TooManySessions(TooMany):
    """The API key has as many active runs as it may have; try again later."""


class SessionNotStarted(Unavailable):
    """The session could not be started; try again later."""


@dataclass(frozen=True, slots=True)
class UnqueuedRuns(RunQueue):
    """The queue for runs that start at once or not at all."""

    async def insert_at_once(self, *_of_run: object) -> StoredAtOnce:
        """Raise `NothingStored`: the limits are others."""
        raise NothingStored

    async def insert(self, tx: Transaction, run: NewRun) -> RunRecord | None:
        """Insert a run as running; raises `TooManySessions` if its key or account has too many.

        It takes no place, so those of the workers do not limit it.
        """
        record = await insert_run(tx, run, limits=replace(self.limits, per_account=_NO_LIMIT))
        if record is None:
            return None
        most = self.limits.per_account
        if record.status != "running" or (
            most is not None and await count_running(tx, run.key.account_id) > most
        ):
            raise TooManySessions(retry_after_s=RETRY_AFTER_S)
        return record


def request_of(caller: Principal, session: str, end_user: str | None) -> GraphRunRequest:
    """What is stored as the request of a session's run, with the labels of the key."""
    request = GraphRunRequest.of(
        graph_id=GRAPH.id,
        messages=[Message.of(role="user", content=f"Session {session}")],
        end_user=end_user,
        metadata={"session": session},
    )
    return caller.labelled(request)


def plan_of(posted: PostedRun, request: ClientRequest) -> RunPlan:
    """The plan of the session that begins with this request."""
    labels = (posted.request.end_user, posted.request.tags)
    return RunPlan(
        run=posted.run,
        attempt=FIRST_ATTEMPT,
        spec=GRAPH,
        model=request.size.model,
        tools=(),
        limits=RunLimits(),
        timeout=LONGEST,
        attribution=Attribution(posted.caller.api_key_id, GRAPH.id, posted.request_id, *labels),
    )
