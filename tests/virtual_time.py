"""An event loop whose clock stands still while there is work, and else goes on to the next timer at once."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec

_P = ParamSpec("_P")


class _Selector(selectors.DefaultSelector):
    """Never waits for a timer; `passed_s` is how long it would have waited."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See selectors."""
        ready = super().select(None if timeout is None else 0)
        if not ready and timeout:
            self.passed_s += timeout
        return ready


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.passed_s


def in_virtual_time(test: Callable[_P, Coroutine[Any, Any, None]]) -> Callable[_P, None]:
    """Run a test that waits for timers only, and not for threads, processes or sockets, on such a loop."""

    @functools.wraps(test)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            runner.run(test(*args, **kwargs))

    return run
