"""One answer for all who ask at about the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class SharedResult(Generic[_T]):
    """Asks once for everybody who waits, and again only after a while: a flood of questions costs one."""

    def __init__(self, ask: Callable[[], Awaitable[_T]], *, kept_s: float) -> None:
        self._ask = ask
        self._kept_s = kept_s
        self._answer: asyncio.Task[_T] | None = None
        self._until = 0.0

    async def get(self) -> _T:
        """The answer, not older than it may be; raises what asking raised."""
        answer = self._answer
        if answer is None or (answer.done() and asyncio.get_running_loop().time() > self._until):
            answer = self._answer = asyncio.create_task(self._asked())
        # Who asked first may leave before the others.
        return await asyncio.shield(answer)

    async def _asked(self) -> _T:
        try:
            return await self._ask()
        finally:
            self._until = asyncio.get_running_loop().time() + self._kept_s
