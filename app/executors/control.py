"""What can be asked of a run while it is carried: the service asks, the executor obeys."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from app.errors import AppError, Conflict, TooMany
from app.events import ClientEvent, ControlEvent, Interrupted, StopKind, StopState, UserMessageDelivered
from app.executors.approvals import Approvals
from app.requests import SentMessage

log = structlog.get_logger(__name__)


class RunEnded(Conflict):
    """The run has ended; nothing can be asked of it any more."""

    code = "run_ended"


class MessageQueueFull(TooMany):
    """As many messages wait for this run's agent as it may have waiting; try again later."""

    code = "messages_waiting"


RETRY_AFTER_S = 5


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """How many messages may wait for one run's agent, and how many characters they may hold."""

    count: int = 64
    size: int = 20 * 2**20


async def _unheard(_event: ControlEvent) -> None:
    """Nobody listens yet."""


class RunControl:
    """One run's strings. Everything here belongs to the event loop that carries the run."""

    def __init__(self, limits: MessageLimits | None = None) -> None:
        self._limits = limits or MessageLimits()
        self.publish: Callable[[ControlEvent], Awaitable[None]] = _unheard
        """Says an event in the run's log; set by whoever carries the run."""
        self.approvals = Approvals(self._say)
        """Tool calls that need a person."""
        self.stop = asyncio.Event()
        """Set when the run must end: interrupt, read to the end, return."""
        self.stop_turn = asyncio.Event()
        """Set when the current turn must stop; the run goes on with messages that wait."""
        self._requested: StopKind | None = None
        self._state: StopState | None = None
        self._publishing: set[asyncio.Task[None]] = set()
        self._deliver: Callable[[SentMessage], None] | None = None
        self._early: list[SentMessage] = []
        self._sent: dict[str, asyncio.Future[int | None]] = {}
        self._waiting: dict[str, int] = {}
        """The size of each message that has not taken effect."""
        self._ended = False

    def send(self, sent: SentMessage) -> None:
        """Hand a message to the agent; the same one twice is one. Raises `RunEnded`, `MessageQueueFull`."""
        if sent.message_id in self._sent:
            return
        if self._ended or self.stop.is_set():
            raise RunEnded
        self._require_room(sent.message.size)
        if self._deliver is None:
            self._early.append(sent)
        else:
            self._deliver(sent)
        self._sent[sent.message_id] = asyncio.get_running_loop().create_future()
        self._waiting[sent.message_id] = sent.message.size

    def _require_room(self, size: int) -> None:
        full = len(self._waiting) >= self._limits.count
        # One alone may always wait: its size is limited by that of a request.
        if full or (self._waiting and sum(self._waiting.values()) + size > self._limits.size):
            raise MessageQueueFull(retry_after_s=RETRY_AFTER_S)

    async def wait_for_position(self, message_id: str, *, within_s: float) -> int | None:
        """Where in the events the message took effect; None when it has not within that time."""
        done, _ = await asyncio.wait({self._sent[message_id]}, timeout=within_s)
        return done.pop().result() if done else None

    def deliver_to(self, deliver: Callable[[SentMessage], None]) -> None:
        """From now on `deliver` takes messages, those that came early first; it may raise `RunEnded`."""
        self._deliver = deliver
        for sent in self._early:
            deliver(sent)
        self._early.clear()

    def on_published(self, event: ClientEvent, position: int) -> None:
        """An event has its position."""
        if isinstance(event, UserMessageDelivered):
            self._waiting.pop(event.message_id, None)
            waiting = self._sent.get(event.message_id)
            if waiting is not None and not waiting.done():
                waiting.set_result(position)

    async def interrupt(self) -> None:
        """Stop the current turn; without an agent at work yet, the run."""
        (self.stop if self._deliver is None else self.stop_turn).set()
        await self._ask("interrupt")

    async def cancel(self) -> None:
        """End the run."""
        self.stop.set()
        await self._ask("cancel")

    async def acknowledge(self) -> None:
        """The agent has been told to stop."""
        if self._state == "requested":
            await self._advance("acknowledged")

    async def stopped(self) -> None:
        """The agent has stopped; another wish to stop begins anew."""
        kind = self._requested
        await self.acknowledge()
        self.stop_turn.clear()
        # A cancel that came meanwhile has yet to be seen to.
        if kind is not None and self._requested == kind:
            await self._advance("stopped")

    async def end(self) -> None:
        """The run is over."""
        self._ended = True
        for waiting in self._sent.values():
            if not waiting.done():
                waiting.set_result(None)
        await self.approvals.end()
        await self.stopped()
        # Also of what nobody waits for any more: nothing is said after this.
        if self._publishing:
            await asyncio.wait(self._publishing)

    async def _say(self, event: ControlEvent) -> None:
        await self.publish(event)

    async def _ask(self, kind: StopKind) -> None:
        # Asking twice is asking once; a cancel goes beyond an interrupt.
        if not self._ended and self._requested not in {kind, "cancel"}:
            self._requested = kind
            await self._advance("requested")

    async def _advance(self, state: StopState) -> None:
        kind, self._state = self._requested, state
        if kind is None:
            return
        if state == "stopped":
            # Before it is told: who asks while it is asks for something new.
            self._requested = self._state = None
        publishing = asyncio.create_task(self._tell_of(Interrupted(kind=kind, state=state)))
        self._publishing.add(publishing)
        publishing.add_done_callback(self._publishing.discard)
        # Whoever saw to it may be gone before it is told.
        await asyncio.shield(publishing)

    async def _tell_of(self, event: Interrupted) -> None:
        try:
            await self.publish(event)
        except AppError as error:
            # The wish counts, whoever hears of it.
            log.warning("a reader was not told of an interruption", state=event.state, reason=error.detail)
