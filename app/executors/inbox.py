"""MessageInbox: the messages that clients send to a running agent."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from app.errors import Conflict, TooMany
from app.requests import SentMessage

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
    """Queues messages until the executor forwards them, and reports their positions to senders."""

    def __init__(self, limits: MessageLimits | None = None) -> None:
        self._limits = limits or MessageLimits()
        self._queue: asyncio.Queue[SentMessage] = asyncio.Queue()
        self._positions: dict[str, asyncio.Future[int | None]] = {}
        self._pending_sizes: dict[str, int] = {}
        """The size of each message by its id, until the message takes effect."""
        self._closed = False
        self.is_open = False
        """Whether an agent receives the messages, or has received them."""

    def __contains__(self, message_id: str) -> bool:
        return message_id in self._positions

    def put(self, sent: SentMessage) -> None:
        """Queue a message; the same one twice is queued once. Raises `RunEnded`, `MessageQueueFull`."""
        if sent.message_id in self._positions:
            return
        if self._closed:
            raise RunEnded
        self._require_room(sent.message.size)
        self._positions[sent.message_id] = asyncio.get_running_loop().create_future()
        self._pending_sizes[sent.message_id] = sent.message.size
        self._queue.put_nowait(sent)

    @asynccontextmanager
    async def forwarding_to(self, deliver: Callable[[SentMessage], None]) -> AsyncIterator[None]:
        """Pass each message to `deliver` while the body runs; afterwards none is accepted.

        The sender of a message that is not delivered, or that `deliver` refuses, gets `RunEnded`.
        """
        self.is_open = True
        forwarding = asyncio.create_task(self._forward(deliver))
        try:
            yield
        finally:
            forwarding.cancel()
            await asyncio.wait({forwarding})
            self._closed = True
            while not self._queue.empty():
                self._refuse(self._queue.get_nowait().message_id, RunEnded())
            if not forwarding.cancelled():
                forwarding.result()

    async def wait_for_position(self, message_id: str, *, within_s: float) -> int | None:
        """The position of the event with which the message took effect; None if it has none within that time.

        Raises `RunEnded` if the agent accepted no more messages.
        """
        done, _ = await asyncio.wait({self._positions[message_id]}, timeout=within_s)
        return done.pop().result() if done else None

    def mark_delivered(self, message_id: str, position: int | None) -> None:
        """The message took effect with the event at this position."""
        self._pending_sizes.pop(message_id, None)
        waiting = self._positions.get(message_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(position)

    def close(self) -> None:
        """The run is over: senders stop waiting."""
        self._closed = True
        for message_id in self._positions:
            self.mark_delivered(message_id, None)

    async def _forward(self, deliver: Callable[[SentMessage], None]) -> None:
        while True:
            sent = await self._queue.get()
            try:
                deliver(sent)
            except RunEnded as error:
                self._refuse(sent.message_id, error)

    def _refuse(self, message_id: str, error: RunEnded) -> None:
        self._pending_sizes.pop(message_id, None)
        refused = self._positions[message_id]
        refused.set_exception(error)
        # Marks it as seen: the sender may have stopped waiting.
        refused.exception()

    def _require_room(self, size: int) -> None:
        full = len(self._pending_sizes) >= self._limits.count
        # A single message may always wait: the size of its request is limited.
        if full or (self._pending_sizes and sum(self._pending_sizes.values()) + size > self._limits.size):
            raise MessageQueueFull(retry_after_s=RETRY_AFTER_S)
