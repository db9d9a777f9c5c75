"""PoolUse: how the connections of a pool are used."""

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

_Connection = TypeVar("_Connection")


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
            with self.opening():
                connection = await stack.enter_async_context(opening)
            yield connection

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Count a connection while it waits for the pool."""
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
