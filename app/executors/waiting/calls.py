"""WaitingCalls: calls of a run that wait for an answer from outside, each until its deadline."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeAlias, TypeVar

import structlog
from pydantic import TypeAdapter

from app.errors import AppError
from app.events import ControlEvent, ResolvedBy
from app.executors.waiting.port import StoredCall, WaitKind, Waits

log = structlog.get_logger(__name__)

AnswerT = TypeVar("AnswerT")

Publish: TypeAlias = Callable[[ControlEvent], Awaitable[object]]
"""Appends an event to the run's log."""


NO_DETAILS: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Resolution(Generic[AnswerT]):
    """Why a call waits no longer; it has an answer only if it was `decided` or `granted`."""

    reason: ResolvedBy
    answer: AnswerT | None = None


ResolvedEvent: TypeAlias = Callable[[str, Resolution[AnswerT]], ControlEvent]
"""The event that readers get once the call with this id waits no longer."""


@dataclass(frozen=True, slots=True)
class CallKind(Generic[AnswerT]):
    """What the calls of one kind have in common; the errors refuse answers."""

    name: WaitKind
    answers: TypeAdapter[AnswerT]
    """Their form as JSON."""
    unknown: type[AppError]
    """To no call of the run."""
    answered: type[AppError]
    """To one that is resolved otherwise."""
    resolved_event: ResolvedEvent[AnswerT] | None = None
    granted: AnswerT | None = None
    """The answer to a call that was granted with another one."""

    def resolution(self, resolved_by: ResolvedBy, answer: object) -> Resolution[AnswerT]:
        """The resolution that is stored so."""
        if resolved_by == "decided":
            return Resolution(resolved_by, self.answers.validate_python(answer))
        return Resolution(resolved_by, self.granted if resolved_by == "granted" else None)


@dataclass(slots=True)
class _Call(Generic[AnswerT]):
    tool_call_id: str | None
    deadline: datetime
    request: dict[str, Any] = field(default_factory=dict)
    """The event that asks for the answer."""
    check: Callable[[AnswerT], Awaitable[object]] | None = None
    published: asyncio.Future[object] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    """Publishes the request; runs to its end even if the call is cancelled meanwhile."""
    resolving: asyncio.Task[None] | None = None
    is_over: bool = False
    """Whether an earlier attempt has published how it was resolved."""
    resolution: asyncio.Future[Resolution[AnswerT]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def is_waiting(self) -> bool:
        """Whether readers see it without an answer."""
        return self.published.done() and not self.resolution.done()

    def resolve(self, resolution: Resolution[AnswerT]) -> None:
        """Resolve it, unless it is resolved."""
        if not self.resolution.done():
            self.resolution.set_result(resolution)


class WaitingCalls(Generic[AnswerT]):
    """The calls of one kind; only used on the loop that executes the run."""

    def __init__(
        self,
        publish: Publish,
        timeout: timedelta,
        kind: CallKind[AnswerT],
        waits: Waits,
    ) -> None:
        self._publish = publish
        self._timeout = timeout
        self._kind = kind
        self._waits = waits
        self._calls: dict[str, _Call[AnswerT]] = {}
        """By id; of the whole run, so that an answer which is sent twice counts once."""
        self._kept: dict[str, str] = {}
        """The ids of calls that were parked and not continued yet, by that of their tool call."""
        self._is_parking = False
        self._ended = False

    @property
    def is_waiting(self) -> bool:
        """Whether readers of the run see a call without an answer."""
        return any(call.is_waiting for call in self._calls.values())

    @property
    def waiting_tool_calls(self) -> set[str]:
        return {call.tool_call_id for call in self._calls.values() if call.is_waiting and call.tool_call_id}

    def keep(self, stored: StoredCall) -> None:
        """Add a call of an earlier attempt; `wait` goes on with one that was parked, and asks no more."""
        call = _Call[AnswerT](
            stored.tool_call_id, stored.expires_at, stored.request, is_over=not stored.is_parked
        )
        call.published.set_result(None)
        if stored.resolved_by is not None:
            call.resolve(self._kind.resolution(stored.resolved_by, stored.answer))
        self._calls[stored.call_id] = call
        if stored.is_parked and stored.tool_call_id is not None:
            self._kept[stored.tool_call_id] = stored.call_id

    def keeps(self, tool_call_id: str) -> bool:
        """Whether this tool call has been asked about by an earlier attempt, and was not continued."""
        return tool_call_id in self._kept

    async def wait(
        self,
        call_id: str,
        request: Callable[[str], ControlEvent],
        check: Callable[[AnswerT], Awaitable[object]] | None = None,
        *,
        tool_call_id: str | None = None,
        details: Mapping[str, Any] = NO_DETAILS,
    ) -> Resolution[AnswerT]:
        """Store and publish a request, which names when it expires, and wait for its answer.

        A tool call that an earlier attempt has asked about gets the answer to that. `check` raises `Invalid`
        for an answer with which the call keeps waiting. `details` are stored with the request, and in no
        event. Raises what the event log and the storage raise.
        """
        if self._ended:
            return Resolution("run_stopped")
        if tool_call_id is not None and (kept := self._kept.pop(tool_call_id, None)) is not None:
            call_id, call = kept, self._calls[kept]
        else:
            call = _Call(tool_call_id, self._waits.now() + self._timeout, dict(details))
            call.published = asyncio.ensure_future(self._request(call_id, call, request))
            self._calls[call_id] = call
        call.check = check
        reason: ResolvedBy = "run_stopped"
        try:
            await asyncio.shield(call.published)
            left = call.deadline - self._waits.now()
            await asyncio.wait({call.resolution}, timeout=max(0.0, left.total_seconds()))
            if self._is_parking:
                # Until the attempt is stopped.
                await asyncio.get_running_loop().create_future()
            reason = "expired"
        finally:
            if not self._is_parking:
                await self._resolve(call_id, call, reason)
        return call.resolution.result()

    async def answer(self, call_id: str, answer: AnswerT) -> None:
        """Answer a call; the same answer twice counts once. Raises `unknown`, `answered`, and `Invalid`."""
        if (call := self._calls.get(call_id)) is None:
            raise self._kind.unknown
        if call.check is not None and not call.resolution.done():
            await call.check(answer)
        if not call.resolution.done():
            dumped = self._kind.answers.dump_python(answer, mode="json")
            resolution = await self._store(call_id, call, "decided", dumped)
        else:
            resolution = call.resolution.result()
        if resolution.answer != answer:
            raise self._kind.answered

    def request(self, call_id: str) -> Mapping[str, Any]:
        """The event that asks for the answer to a call; empty for one that is not known."""
        call = self._calls.get(call_id)
        return {} if call is None else call.request

    async def grant(self, covers: Callable[[Mapping[str, Any]], bool]) -> None:
        """Resolve the calls that wait and whose requests an answer to another call covers."""
        for call_id, call in list(self._calls.items()):
            if not call.resolution.done() and covers(call.request):
                await self._store(call_id, call, "granted")

    def park(self) -> list[str]:
        """From now on the calls that wait are left to the run's next attempt; returns their ids."""
        self._is_parking = True
        return [call_id for call_id, call in self._calls.items() if call.is_waiting]

    async def end(self, *, is_parked: bool = False) -> None:
        """The attempt is over: no call waits any more, and none is made.

        `is_parked`: those that wait are continued by the next attempt.
        """
        self._ended = True
        if is_parked:
            return
        for call_id, call in list(self._calls.items()):
            await self._resolve(call_id, call, "run_stopped")

    async def _store(
        self, call_id: str, call: _Call[AnswerT], reason: ResolvedBy, answer: object = None
    ) -> Resolution[AnswerT]:
        """Resolve it; the first resolution that was stored counts."""
        stored = await self._waits.resolve(call_id, reason, answer)
        if stored is None:
            raise self._kind.unknown
        resolution = self._kind.resolution(*stored)
        if not self._is_parking:
            # Otherwise the next attempt goes on with it.
            call.resolve(resolution)
        return resolution

    async def _request(
        self, call_id: str, call: _Call[AnswerT], request: Callable[[str], ControlEvent]
    ) -> None:
        event = request(call.deadline.isoformat().replace("+00:00", "Z"))
        call.request |= event.model_dump(mode="json", by_alias=True)
        stored = StoredCall(call_id, self._kind.name, call.tool_call_id, call.request, call.deadline)
        await self._waits.open(stored)
        await self._publish(event)

    async def _resolve(self, call_id: str, call: _Call[AnswerT], reason: ResolvedBy) -> None:
        """Resolve it for this reason unless it is; publish that once. A second caller waits meanwhile."""
        if reason == "expired" and not call.resolution.done():
            call.resolve(await self._expired(call_id))
        call.resolve(Resolution(reason))
        if self._kind.resolved_event is None or call.is_over:
            return
        if call.resolving is None:
            event = self._kind.resolved_event(call_id, call.resolution.result())
            call.resolving = asyncio.create_task(self._publish_resolved(call, event))
        await asyncio.shield(call.resolving)

    async def _expired(self, call_id: str) -> Resolution[AnswerT]:
        """An answer that is stored meanwhile counts."""
        try:
            stored = await self._waits.resolve(call_id, "expired")
        except AppError as error:
            # It ends with the run in the database as well.
            log.warning("call.expiry_not_stored", reason=error.detail)
            stored = None
        return Resolution("expired") if stored is None else self._kind.resolution(*stored)

    async def _publish_resolved(self, call: _Call[AnswerT], event: ControlEvent) -> None:
        await asyncio.wait({call.published})
        if call.published.exception() is not None:
            # No reader has seen the request.
            return
        try:
            await self._publish(event)
        except AppError as error:
            log.warning("call.resolution_not_published", type=event.type, reason=error.detail)
