"""PoolUse: how the connections of a pool are used."""

from collections.abc import AsyncIterator, Awaitable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Protocol, TypeVar


class Closable(Protocol):
    """A connection."""

    async def close(self) -> None:
        """Return it to the pool."""
        ...


_Connection = TypeVar("_Connection", bound=Closable)


class PoolUse:
    """Counts what waits for a connection, which the pool does not count."""

    def __init__(self, pool: Any) -> None:
        """`pool`: SQLAlchemy's queue pool."""
        self.waiting = 0
        """How many statements and transactions wait for a connection."""
        self._pool = pool

    @property
    def size(self) -> int:
        return int(self._pool.size())

    @property
    def in_use(self) -> int:
        return int(self._pool.checkedout())

    @asynccontextmanager
    async def connected(
        self, opening: AbstractAsyncContextManager[_Connection]
    ) -> AsyncIterator[_Connection]:
        """Open a connection for the body, and count it while it waits for the pool."""
        async with AsyncExitStack() as stack:
            with self._waiting():
                connection = await stack.enter_async_context(opening)
            yield connection

    @asynccontextmanager
    async def autocommitting(self, opening: Awaitable[_Connection]) -> AsyncIterator[_Connection]:
        """As `connected`, for statements that commit themselves; closes the connection without a task."""
        with self._waiting():
            connection = await opening
        try:
            yield connection
        finally:
            # There is no transaction to roll back, so this waits for nothing and cannot be cancelled.
            await connection.close()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
