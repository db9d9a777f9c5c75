"""Dependencies of routes are called on the event loop."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from app.http.ag_ui.routes import ag_ui_input
from app.http.routers import ROUTERS

MAY_BE_LARGE = {ag_ui_input}
"""Parse whole bodies."""


def calls_of(dependant: Dependant) -> Iterator[Callable[..., Any]]:
    if dependant.call is not None:
        yield dependant.call
    for each in dependant.dependencies:
        yield from calls_of(each)


def is_coroutine(call: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(call if inspect.isroutine(call) else type(call).__call__)


def test_no_request_waits_for_a_thread_that_looks_up_its_dependencies() -> None:
    routes = [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]
    calls = {call for route in routes for call in calls_of(route.dependant)}

    assert len(routes) > 50
    assert {call for call in calls if not is_coroutine(call)} == MAY_BE_LARGE
