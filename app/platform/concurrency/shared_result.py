"""SharedResult: one computation for all concurrent callers."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from app.platform.logs.context import start_detached

_T = TypeVar("_T")


class SharedResult(Generic[_T]):
    """Computes a value once for all callers that wait, and again only after `max_age_s`."""

    def __init__(self, compute: Callable[[], Awaitable[_T]], *, max_age_s: float) -> None:
        self._compute = compute
        self._max_age_s = max_age_s
        self._result: asyncio.Task[_T] | None = None
        self._expires_at = 0.0

    async def get(self) -> _T:
        """The value, at most `max_age_s` old; raises what `compute` raised."""
        result = self._result
        if result is None or (result.done() and asyncio.get_running_loop().time() > self._expires_at):
            result = self._result = start_detached(self._compute_once())
        # The caller that started it may be cancelled before the others.
        return await asyncio.shield(result)

    async def _compute_once(self) -> _T:
        try:
            return await self._compute()
        finally:
            self._expires_at = asyncio.get_running_loop().time() + self._max_age_s
