"""ClientTool: a tool that the program with the client executes itself."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import Any, NamedTuple

from runtally.errors import ApiError
from runtally.events import ClientToolCall, Event

log = logging.getLogger(__name__)

_FAILED = "a tool of this program has failed"
_OVER = {"tool_call_answered", "run_ended", "tool_call_not_found"}
"""Why a result is not needed: the call has one, or the run goes on without it on another server."""


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool for a run: the model calls it, and this program executes it.

    `input_schema` is the JSON schema of its arguments. `run` calls the handler with them, and returns to the
    model what it returns (any JSON), or the text of what it raises. A handler of `AsyncClient` may be async.
    It is called at least once: again for a call in the events of a run that `run` joins by its `run_id`.
    """

    name: str
    description: str
    input_schema: Mapping[str, Any]
    handler: Callable[[dict[str, Any]], Any | Awaitable[Any]] | None = None
    """Without one, `submit_tool_result` answers the `ClientToolCall` events."""


class Result(NamedTuple):
    """The result of a call."""

    result: Any
    is_error: bool


def body_of_tools(tools: Iterable[ClientTool]) -> list[dict[str, Any]]:
    """The tools as the server reads them."""
    return [
        {"name": tool.name, "description": tool.description, "inputSchema": dict(tool.input_schema)}
        for tool in tools
    ]


def handler_of(event: Event, tools: Iterable[ClientTool]) -> Callable[[dict[str, Any]], Any] | None:
    """The handler of the call that this event is, if it is one."""
    if not isinstance(event, ClientToolCall):
        return None
    return next((tool.handler for tool in tools if tool.name == event.tool_name), None)


def call(handler: Callable[[dict[str, Any]], Any], args: dict[str, Any]) -> Result:
    """What a blocking handler returns or raises."""
    try:
        return Result(handler(args), is_error=False)
    except Exception as error:
        log.exception(_FAILED)
        return _failed(error)


async def call_async(handler: Callable[[dict[str, Any]], Any], args: dict[str, Any]) -> Result:
    """The same for a handler that may be async."""
    try:
        result = handler(args)
        return Result(await result if isawaitable(result) else result, is_error=False)
    except Exception as error:
        log.exception(_FAILED)
        return _failed(error)


def require_over(error: ApiError) -> None:
    """Raise the error unless the run does not wait for the result any more."""
    if error.code not in _OVER:
        raise error


def _failed(error: Exception) -> Result:
    return Result(str(error) or type(error).__name__, is_error=True)
