"""ExternalSession: the calls that a client's own agent makes in one run."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from app.gateway.channel import Channel


class SessionOver(Exception):
    """The session takes no more calls."""


@dataclass(slots=True, eq=False)
class ExternalSession:
    """Shared by the run that executes it and by the requests of its client."""

    opened: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when calls can be made."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a call has ended, and when it takes no more."""
    calls: int = 0
    """How many are being made."""
    used_at: float = 0.0
    """When (loop time) the last call began or ended."""
    is_over: bool = False
    _channel: Channel | None = None

    @property
    def is_idle(self) -> bool:
        """Whether it waits for its client."""
        return not self.is_over and not self.calls and self._channel is not None

    @property
    def is_unused(self) -> bool:
        """The same, and no call was admitted."""
        return self.is_idle and self._channel is not None and not self._channel.is_used

    def open(self, channel: Channel) -> None:
        """Take calls, which use this channel."""
        self._channel = channel
        self._note_use()
        self.opened.set()

    def close(self) -> None:
        """Take no more calls; those that are being made go on."""
        if not self.is_over:
            self.is_over = True
            self.changed.set()

    @contextmanager
    def call(self) -> Iterator[Channel]:
        """Make a call over this channel; raises `SessionOver`."""
        if self.is_over or self._channel is None:
            raise SessionOver
        self.calls += 1
        self._note_use()
        try:
            yield self._channel
        finally:
            self.calls -= 1
            self._note_use()
            self.changed.set()

    @contextmanager
    def withdrawn(self) -> Iterator[None]:
        """Take no more calls; until this is left, its run does not end for that."""
        self.is_over = True
        self.calls += 1
        try:
            yield
        finally:
            self.calls -= 1
            self.changed.set()

    def _note_use(self) -> None:
        self.used_at = asyncio.get_running_loop().time()
