"""The fields of log lines: which run, account and request a line is about.

They are context variables, which every task inherits from the code that starts it. A task that outlives the
run that starts it is started by `start_detached`, so that its lines do not name that run.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import Context, ContextVar
from typing import Any, ParamSpec, TypeVar
from uuid import UUID

import structlog

from app.ids import RunKey

Fields = Mapping[str, Any]
Result = TypeVar("Result")
Parameters = ParamSpec("Parameters")

_noted: ContextVar[dict[str, Any] | None] = ContextVar("noted", default=None)
_current_fields: ContextVar[Callable[[], Fields] | None] = ContextVar("current_fields", default=None)


def start_detached(
    work: Coroutine[Any, Any, Result], *, fields: Callable[[], Fields] | None = None
) -> asyncio.Task[Result]:
    """Start a task whose log lines, and those of the tasks it starts, do not name the caller's run.

    `fields` returns what they name instead at the moment they are written: for a task that serves one run
    after the other.
    """
    context = Context()
    context.run(_current_fields.set, fields)
    return asyncio.create_task(work, context=context)


def call_detached(
    function: Callable[Parameters, Result], *args: Parameters.args, **kwargs: Parameters.kwargs
) -> Result:
    """Call what starts a task of its own, as `start_detached` does."""
    return Context().run(function, *args, **kwargs)


def for_run(
    run: RunKey, *, api_key_id: UUID | None = None, request_id: str | None = None
) -> AbstractContextManager[object]:
    """Log lines of the body name this run, its account, and the key and request that started it."""
    named = {"run_id": run.run_id, "account_id": str(run.account_id), "request_id": request_id}
    named["key_id"] = None if api_key_id is None else str(api_key_id)
    known = {name: value for name, value in named.items() if value is not None}
    return structlog.contextvars.bound_contextvars(**known)


@contextmanager
def noting(**fields: Any) -> Iterator[None]:
    """Log lines of the body name these fields, and those that `note` adds as soon as they are known."""
    token = _noted.set(fields)
    try:
        yield
    finally:
        _noted.reset(token)


def note(**fields: Any) -> None:
    """Add fields to those of `noting`, if the caller is within it."""
    if (noted := _noted.get()) is not None:
        noted.update(fields)


def fields_of_context() -> Fields:
    """What log lines of the caller name."""
    return structlog.contextvars.get_contextvars()


def add_context(logger: object, method: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """The processor that adds these fields to a log line."""
    event = structlog.contextvars.merge_contextvars(logger, method, event)
    current = _current_fields.get()
    for fields in (_noted.get() or {}, {} if current is None else current()):
        for name, value in fields.items():
            event.setdefault(name, value)
    return event
