"""Calls code of the operator so that nothing it does reaches the caller."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

TIME_LIMIT_S: Final = 5.0


class ExtensionFailed(Exception):
    """A call did not return; the text is the reason, for the log."""


async def call_extension(call: Callable[[], Awaitable[T]]) -> T:
    """What a call returns; raises `ExtensionFailed` if it raises anything, or exceeds the time limit.

    A call that ignores its cancellation is left behind.
    """
    task = asyncio.create_task(_outcome(call))
    try:
        done, _ = await asyncio.wait({task}, timeout=TIME_LIMIT_S)
    finally:
        task.cancel()
    if not done:
        raise ExtensionFailed(f"did not return within {TIME_LIMIT_S:g} seconds")
    outcome = task.result()
    if isinstance(outcome, BaseException):
        raise ExtensionFailed(f"raised {type(outcome).__name__}") from outcome
    return outcome


async def _outcome(call: Callable[[], Awaitable[T]]) -> T | BaseException:
    """What a call returned or raised. Out of a task, some exceptions would stop the event loop."""
    try:
        return await call()
    except (Exception, asyncio.CancelledError, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - returned
        return error
