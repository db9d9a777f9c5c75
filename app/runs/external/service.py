"""ExternalRuns: the sessions of clients' own agents, each of which is a run of this process."""

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, Unpack

import structlog

from app.billing.credit.ledger import CreditLedger, InsufficientCredits
from app.billing.token_rates.service import require_tokens
from app.errors import TooMany, Unavailable
from app.executors.external.executor import ExternalExecutor
from app.executors.external.session import ExternalSession, SessionOver
from app.executors.port import RunPlan
from app.gateway.bodies import BodyRefused
from app.gateway.channel import CallRefused
from app.gateway.client.answer import PassedAnswer
from app.gateway.client.request import ClientRequest
from app.gateway.upstream import COUNT_TOKENS
from app.ids import AccountId, ApiKeyId, RunId, RunKey, new_uuid
from app.models.registry import ModelRegistry, UnknownModel
from app.platform.background import first_of
from app.platform.clock.clock import Clock
from app.platform.db import StatementFailed
from app.platform.logs.context import note, start_detached
from app.platform.metrics.runs import RunMetrics
from app.platform.server.loopback import Receive
from app.platform.server.memory import Overloaded
from app.platform.telemetry.service import Telemetry
from app.requests.attribution import Attributed
from app.requests.principal import GraphNotAllowed, ModelNotAllowed, Principal
from app.runs.acceptance import RunAcceptance
from app.runs.dispatch.limits import RETRY_AFTER_S
from app.runs.external.refusals import no_credit, refusal_of
from app.runs.external.repository import delete_running
from app.runs.external.starting import GRAPH, SessionNotStarted, TooManySessions, plan_of, request_of
from app.runs.intake.readiness import IntakeReadiness
from app.runs.requests.codec import RequestCodec
from app.runs.requests.posted import PostedRun, Posting
from app.runs.supervisor import ActiveRun, RunSupervisor

log = structlog.get_logger(__name__)

MOST_SESSIONS: Final = 256
"""Of one account in this process."""

MOST_CALLS: Final = 64
"""Of one session at the same time."""


class TooManyCalls(TooMany):
    """The session makes too many calls at once; try again later."""


class _Key(NamedTuple):
    """Calls with the same are of one session."""

    account_id: AccountId
    api_key_id: ApiKeyId
    session: str
    end_user: str | None


@dataclass(frozen=True, slots=True)
class _Started:
    """A session, and the run that it is."""

    session: ExternalSession
    run: ActiveRun


@dataclass(frozen=True, slots=True)
class ExternalRuns:
    """Makes the calls of clients' own agents."""

    executor: ExternalExecutor
    acceptance: RunAcceptance
    supervisor: RunSupervisor
    intake: IntakeReadiness
    models: ModelRegistry
    ledger: CreditLedger
    codec: RequestCodec
    telemetry: Telemetry
    metrics: RunMetrics
    clock: Clock
    _sessions: dict[_Key, asyncio.Task[_Started]] = field(default_factory=dict, init=False)

    async def serve(
        self,
        caller: Principal,
        request: ClientRequest,
        receive: Receive,
        answer: PassedAnswer,
        **posting: Unpack[Posting],
    ) -> None:
        """Make a call and pass its answer on.

        Raises, as long as nothing was sent, `GraphNotAllowed`, `ModelNotAllowed`, `UnknownModel`,
        `InsufficientCredits`, `BudgetSpent`, `TooManySessions`, `TooManyCalls`, `TokensUsedUp`, what
        `IntakeReadiness` raises, and `Unavailable`.
        """
        self.require_allowed(caller, request.models)
        try:
            if request.path == COUNT_TOKENS:
                gateway, owner = self.executor.gateway, str(caller.account_id)
                await gateway.count_for_client(owner, request, receive, answer.send)
            else:
                if caller.terms.tokens_per_minute is not None:
                    async with self.acceptance.database.read() as reader:
                        await require_tokens(reader, caller)
                await self._call(caller, request, receive, answer, posting)
        except CallRefused as refused:
            balance = await self.ledger.balance(caller.account_id)
            raise refusal_of(refused, balance) from refused
        except BodyRefused as refused:
            raise Overloaded(retry_after_s=RETRY_AFTER_S) from refused

    def require_allowed(self, caller: Principal, models: Iterable[str] = ()) -> None:
        """Raise unless the key may use these models here."""
        if not caller.terms.allows_graph(GRAPH.id):
            raise GraphNotAllowed
        for model in models:
            if self.models.resolve(model, None) != model:
                # The provider gets the name as it is, and knows none of our aliases and roles.
                raise UnknownModel.field("model", f"{model!r} is not the id of a model")
            if not caller.terms.allows_model(self.models.names_of(model)):
                raise ModelNotAllowed

    async def _call(
        self,
        caller: Principal,
        request: ClientRequest,
        receive: Receive,
        answer: PassedAnswer,
        posting: Posting,
    ) -> None:
        while True:
            started = await self._session(caller, request, posting)
            note(run_id=started.run.plan.run.run_id)
            if started.session.calls >= MOST_CALLS:
                raise TooManyCalls(retry_after_s=RETRY_AFTER_S)
            try:
                with started.session.call() as channel:
                    await self.executor.gateway.serve_client(channel, request, receive, answer.send)
            except SessionOver:
                # It has ended meanwhile: the call begins the next one.
                continue
            except CallRefused as refused:
                if refused.refusal not in {"ended", "deadline"}:
                    raise
                started.session.close()
                continue
            finally:
                if started.session.is_unused:
                    await asyncio.shield(start_detached(self._discard(started)))
            return

    async def _session(self, caller: Principal, request: ClientRequest, posting: Posting) -> _Started:
        session = request.session or f"{self.clock.now():%Y-%m-%d}"
        named = caller.labelled(Attributed.of(end_user=request.end_user)).end_user
        key = _Key(caller.account_id, caller.api_key_id, session, named or request.agents_user)
        starting = self._sessions.get(key)
        if starting is None or _is_over(starting):
            self._forget_ended()
            starting = start_detached(self._start(caller, key, request, posting))
            self._sessions[key] = starting
        # A client that disconnects leaves it to others.
        return await asyncio.shield(starting)

    async def _start(
        self, caller: Principal, key: _Key, request: ClientRequest, posting: Posting
    ) -> _Started:
        self.intake.require_open()
        await self._make_room(caller.account_id)
        run = RunKey(caller.account_id, RunId(str(new_uuid())))
        stored = request_of(caller, key.session, key.end_user)
        posted = PostedRun(
            *(run, caller, stored),
            fingerprint=await self.codec.fingerprint(stored),
            request_id=posting["request_id"],
            caller_trace=posting.get("caller_trace"),
        )
        trace = self.telemetry.context_of(run, posted.caller_trace)
        plan = replace(plan_of(posted, request), trace=trace)
        session = self.executor.expect(run)
        try:
            active = self.supervisor.start(await self._accepted(posted, plan), stored, has_place=False)
            self.metrics.run_started(waited_s=0)
            await first_of(session.opened.wait(), active.ended.wait())
        finally:
            self.executor.forget(run)
        if not session.opened.is_set():
            raise SessionNotStarted(retry_after_s=RETRY_AFTER_S)
        return _Started(session, active)

    async def _discard(self, started: _Started) -> None:
        """Leave nothing of a session none of whose calls was admitted."""
        run = started.run.plan.run
        with started.session.withdrawn():
            try:
                async with self.acceptance.database.transaction() as tx:
                    if await delete_running(tx, run):
                        await self.ledger.release(tx, run)
            except (Unavailable, StatementFailed) as error:
                # It stays, and ends by itself.
                log.warning("external.session_not_discarded", run_id=run.run_id, reason=str(error))
            else:
                self.supervisor.hand_over([run])
        await started.run.ended.wait()
        self.supervisor.event_log.abandon(run)

    async def _accepted(self, posted: PostedRun, plan: RunPlan) -> RunPlan:
        """The plan of the run once it is stored; an idle session of the key makes room for it."""
        caller = posted.caller
        while True:
            try:
                accepted = await self.acceptance.accept(posted, plan, has_place=True)
            except TooManySessions:
                if not await self._end_one(self._idle(caller.account_id, of=caller.api_key_id)):
                    raise
                continue
            except InsufficientCredits as error:
                raise no_credit(await self.ledger.balance(caller.account_id)) from error
            if accepted is None:
                raise SessionNotStarted(retry_after_s=RETRY_AFTER_S)
            return accepted.plan

    async def _make_room(self, account_id: AccountId) -> None:
        of_account = sum(key.account_id == account_id for key in self._sessions)
        if of_account > MOST_SESSIONS and not await self._end_one(self._idle(account_id)):
            raise TooManySessions(retry_after_s=RETRY_AFTER_S)

    async def _end_one(self, idle: Iterable[_Started]) -> bool:
        """End the session that has waited longest; False if none of these waits."""
        longest = min(idle, key=lambda each: each.session.used_at, default=None)
        if longest is None:
            return False
        longest.session.close()
        await longest.run.ended.wait()
        return True

    def _idle(self, account_id: AccountId, *, of: ApiKeyId | None = None) -> Iterator[_Started]:
        for key, starting in self._sessions.items():
            is_wanted = key.account_id == account_id and of in {None, key.api_key_id}
            if is_wanted and _has_started(starting) and starting.result().session.is_idle:
                yield starting.result()

    def _forget_ended(self) -> None:
        for key in [key for key, starting in self._sessions.items() if _is_over(starting)]:
            del self._sessions[key]


def _has_started(starting: asyncio.Task[_Started]) -> bool:
    return starting.done() and not starting.cancelled() and starting.exception() is None


def _is_over(starting: asyncio.Task[_Started]) -> bool:
    """Whether its session takes no calls, or was not started."""
    return starting.done() and not (_has_started(starting) and not starting.result().session.is_over)
