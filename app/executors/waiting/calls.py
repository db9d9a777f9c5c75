"""WaitingCalls: calls of a run that wait for an answer from outside, each until its deadline."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeAlias, TypeVar

import structlog

from app.errors import AppError
from app.events import ControlEvent, ResolvedBy

log = structlog.get_logger(__name__)

AnswerT = TypeVar("AnswerT")

Publish: TypeAlias = Callable[[ControlEvent], Awaitable[object]]
"""Appends an event to the run's log."""


@dataclass(frozen=True, slots=True)
class Resolution(Generic[AnswerT]):
    """Why a call waits no longer; it has an answer only if it was `decided`."""

    reason: ResolvedBy
    answer: AnswerT | None = None


ResolvedEvent: TypeAlias = Callable[[str, Resolution[AnswerT]], ControlEvent]
"""The event that readers get once the call with this id waits no longer."""


@dataclass(slots=True)
class _Call(Generic[AnswerT]):
    published: asyncio.Future[object]
    """Publishes the request; runs to its end even if the call is cancelled meanwhile."""
    check: Callable[[AnswerT], Awaitable[object]] | None
    resolving: asyncio.Task[None] | None = None
    resolution: asyncio.Future[Resolution[AnswerT]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

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
        *,
        unknown: type[AppError],
        answered: type[AppError],
        resolved_event: ResolvedEvent[AnswerT] | None = None,
    ) -> None:
        """`unknown` and `answered` refuse answers: to no call of the run, and to one that is resolved."""
        self._publish = publish
        self._timeout = timeout
        self._unknown = unknown
        self._answered = answered
        self._resolved_event = resolved_event
        self._calls: dict[str, _Call[AnswerT]] = {}
        """By id; of the whole run, so that an answer which is sent twice counts once."""
        self._ended = False

    @property
    def is_waiting(self) -> bool:
        """Whether readers of the run see a call without an answer."""
        return any(call.published.done() and not call.resolution.done() for call in self._calls.values())

    async def wait(
        self,
        call_id: str,
        request: Callable[[str], ControlEvent],
        check: Callable[[AnswerT], Awaitable[object]] | None = None,
    ) -> Resolution[AnswerT]:
        """Publish a request, which names when it expires, and wait for its answer.

        `check` raises `Invalid` for an answer with which the call keeps waiting. Raises what the event log
        raises.
        """
        if self._ended:
            return Resolution("run_stopped")
        expires_at = (datetime.now(UTC) + self._timeout).isoformat().replace("+00:00", "Z")
        call = _Call(asyncio.ensure_future(self._publish(request(expires_at))), check)
        self._calls[call_id] = call
        reason: ResolvedBy = "run_stopped"
        try:
            await asyncio.shield(call.published)
            await asyncio.wait({call.resolution}, timeout=self._timeout.total_seconds())
            reason = "expired"
        finally:
            await self._resolve(call_id, call, Resolution(reason))
        return call.resolution.result()

    async def answer(self, call_id: str, answer: AnswerT) -> None:
        """Answer a call; the same answer twice counts once. Raises `unknown`, `answered`, and `Invalid`."""
        if (call := self._calls.get(call_id)) is None:
            raise self._unknown
        if call.check is not None and not call.resolution.done():
            await call.check(answer)
        # Looked at only now: there may have been another answer during the check.
        call.resolve(Resolution("decided", answer))
        if call.resolution.result().answer != answer:
            raise self._answered

    def resolve(self, call_ids: Iterable[str], resolution: Resolution[AnswerT]) -> None:
        """Resolve those of these calls that wait."""
        for call_id in call_ids:
            if (call := self._calls.get(call_id)) is not None:
                call.resolve(resolution)

    async def end(self) -> None:
        """The run is over: no call waits any more, and none is made."""
        self._ended = True
        for call_id, call in list(self._calls.items()):
            await self._resolve(call_id, call, Resolution("run_stopped"))

    async def _resolve(self, call_id: str, call: _Call[AnswerT], resolution: Resolution[AnswerT]) -> None:
        """Publish once how it was resolved; a second caller waits until that is published."""
        call.resolve(resolution)
        if self._resolved_event is None:
            return
        if call.resolving is None:
            event = self._resolved_event(call_id, call.resolution.result())
            call.resolving = asyncio.create_task(self._publish_resolved(call, event))
        await asyncio.shield(call.resolving)

    async def _publish_resolved(self, call: _Call[AnswerT], event: ControlEvent) -> None:
        await asyncio.wait({call.published})
        if call.published.exception() is not None:
            # No reader has seen the request.
            return
        try:
            await self._publish(event)
        except AppError as error:
            log.warning("call.resolution_not_published", type=event.type, reason=error.detail)
