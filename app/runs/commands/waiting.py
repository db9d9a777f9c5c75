"""WaitingCommands: limits the commands to one run that wait for an answer."""

from collections.abc import Iterator
from contextlib import contextmanager

from app.executors.inbox import RETRY_AFTER_S, MessageLimits, MessageQueueFull
from app.ids import RunKey


class WaitingCommands:
    """Counts the commands that this process has sent to runs of others."""

    def __init__(self, limits: MessageLimits) -> None:
        self._limits = limits
        self._sizes: dict[RunKey, list[int]] = {}

    @contextmanager
    def one_more(self, run: RunKey, size: int) -> Iterator[None]:
        """Count a command while the body runs; raises `MessageQueueFull`."""
        sizes = self._sizes.get(run, [])
        # A single command may always wait: the size of its request is limited.
        if len(sizes) >= self._limits.count or (sizes and sum(sizes) + size > self._limits.size):
            raise MessageQueueFull(retry_after_s=RETRY_AFTER_S)
        self._sizes.setdefault(run, sizes).append(size)
        try:
            yield
        finally:
            sizes.remove(size)
            if not sizes:
                del self._sizes[run]
