"""MessageBuffer: the messages of a CLI that the run has not processed yet, bounded in bytes."""

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import is_dataclass
from typing import Any, Final

from claude_agent_sdk import Message

MAX_BYTES: Final = 64 * 1024 * 1024
"""Limit of waiting messages, by their size in memory: about 40 000 pieces of text."""


class BufferFull(Exception):
    """The CLI sends messages faster than they are processed."""


class MessageBuffer:
    """A queue whose writer never waits: waiting would block the SDK's interrupt."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._queue: asyncio.Queue[tuple[Message | Exception | None, int]] = asyncio.Queue()
        self._max_bytes = max_bytes
        self._bytes = 0
        self._full = False

    def put(self, message: Message) -> bool:
        """Add a message; returns False if there is no room.

        An empty buffer accepts a message of any size. After the first False nothing more is added.
        """
        size = _size_of(message)
        self._full |= self._bytes > 0 and self._bytes + size > self._max_bytes
        if not self._full:
            self._bytes += size
            self._queue.put_nowait((message, size))
        return not self._full

    def end(self, error: Exception | None = None) -> None:
        """End after the messages that wait: with this error, or with `BufferFull` if there was no room."""
        self._queue.put_nowait((BufferFull(BufferFull.__doc__) if self._full else error, 0))

    async def messages(self) -> AsyncIterator[Message]:
        """Every message up to the end. Raises the error it ended with."""
        while True:
            item, size = await self._queue.get()
            self._bytes -= size
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item


def _size_of(value: Any) -> int:
    size = sys.getsizeof(value)
    match value:
        case str() | int() | float() | None:
            return size
        case dict():
            return size + sum(_size_of(name) + _size_of(item) for name, item in value.items())
        case list() | tuple():
            return size + sum(map(_size_of, value))
        case _ if is_dataclass(value):
            return size + _size_of(vars(value))
        case _:
            return size
