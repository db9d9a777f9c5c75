"""MessageInbox: the messages that clients send to a running agent."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import structlog

from app.errors import Conflict, TooMany
from app.requests.messages import SentMessage

log = structlog.get_logger(__name__)

RETRY_AFTER_S = 5


class RunEnded(Conflict):
    """The run has ended; it accepts no more requests."""

    code = "run_ended"


class MessageQueueFull(TooMany):
    """Too many messages wait for this run's agent; try again later."""

    code = "messages_waiting"


@dataclass(frozen=True, slots=True)
class MessageLimits:
    """How many messages may wait for one run's agent, and how many characters they may have."""

    count: int = 64
    size: int = 20 * 2**20


class MessageInbox:
    """Passes messages to the executor once it takes them, and reports their positions to senders."""

    def __init__(self, limits: MessageLimits | None = None) -> None:
        self._limits = limits or MessageLimits()
        self._early: deque[SentMessage] = deque()
        """Messages from before there was an agent."""
        self._deliver: Callable[[SentMessage], None] | None = None
        self._positions: dict[str, asyncio.Future[int | None]] = {}
        self._pending: dict[str, SentMessage] = {}
        """Each message by its id, until it takes effect."""
        self._closed = False
        self.arrived = asyncio.Event()
        """Set when an agent gets a message; cleared by an executor that waits for the next one."""
        self.is_open = False
        """Whether an agent receives the messages, or has received them."""

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._positions

    def put(self, sent: SentMessage) -> None:
        """Pass a message on, the same one only once. Raises `RunEnded`, `MessageQueueFull`."""
        if sent.message_id in self._positions:
            return
        if self._closed:
            raise RunEnded
        self._require_room(sent.message.size)
        self._positions[sent.message_id] = asyncio.get_running_loop().create_future()
        self._pending[sent.message_id] = sent
        if self._deliver is None:
            self._early.append(sent)
        else:
            self._forward(sent, self._deliver)

    @contextmanager
    def forwarding_to(self, deliver: Callable[[SentMessage], None]) -> Iterator[None]:
        """Pass each message to `deliver` at once while the body runs; afterwards none is accepted.

        The sender of a message gets what `deliver` raises for it: `RunEnded` if the agent takes no more.
        """
        self.is_open = True
        self._deliver = deliver
        while self._early:
            self._forward(self._early.popleft(), deliver)
        try:
            yield
        finally:
            self._closed = True

    def pending(self) -> list[SentMessage]:
        """The messages that have not taken effect, in order."""
        return list(self._pending.values())

    async def wait_for_position(self, message_id: str, *, within_s: float) -> int | None:
        """The position of the event with which the message took effect; None if it has none within that time.

        Raises what prevented its delivery: `RunEnded` if the agent accepted no more messages.
        """
        done, _ = await asyncio.wait({self._positions[message_id]}, timeout=within_s)
        return done.pop().result() if done else None

    def mark_delivered(self, message_id: str, position: int | None) -> None:
        """The message took effect with the event at this position."""
        self._pending.pop(message_id, None)
        waiting = self._positions.get(message_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(position)

    def close(self) -> None:
        """The run is over: senders stop waiting."""
        self._closed = True
        for message_id in self._positions:
            self.mark_delivered(message_id, None)

    def _forward(self, sent: SentMessage, deliver: Callable[[SentMessage], None]) -> None:
        try:
            deliver(sent)
            self.arrived.set()
        except RunEnded as error:
            self._refuse(sent.message_id, error)
        except Exception as error:
            # Only this message fails: the run and later messages continue.
            log.exception("run.message_not_delivered")
            self._refuse(sent.message_id, error)

    def _refuse(self, message_id: str, error: Exception) -> None:
        self._pending.pop(message_id, None)
        refused = self._positions[message_id]
        refused.set_exception(error)
        # Marks it as seen: the sender may have stopped waiting.
        refused.exception()

    def _require_room(self, size: int) -> None:
        waiting = [sent.message.size for sent in self._pending.values()]
        # A single message may always wait: the size of its request is limited.
        if len(waiting) >= self._limits.count or (waiting and sum(waiting) + size > self._limits.size):
            raise MessageQueueFull(retry_after_s=RETRY_AFTER_S)
