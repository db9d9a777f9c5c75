"""ClientToolCalls: calls of the tools that the client executes; they wait for its results."""

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import JsonValue

from app.errors import AppError, Conflict, NotFound
from app.events import ClientToolCall, ControlEvent
from app.storable import storable
from runtally.tools.result import ToolErrorCode, ToolResult

MAX_RESULT_BYTES: Final = 50_000
"""Of a result, in UTF-8; the rest is cut off."""

_NOT_ANSWERED = "Nothing answered this call in time."
_NOT_SENT = "This call could not be sent to the client."
_RUN_STOPPED = "Nothing answered this call before the run was stopped."
_CUT_OFF = f"\n[The result was longer than {MAX_RESULT_BYTES} bytes; the rest was cut off.]"


class ClientToolCallNotFound(NotFound):
    """No call of a client tool with this id was made by this run."""

    code = "tool_call_not_found"


class ClientToolCallAnswered(Conflict):
    """This tool call has another result already, or its time was up."""

    code = "tool_call_answered"


@dataclass(frozen=True, slots=True)
class ClientToolResult:
    """What the client answers to a call: any JSON, of which the model gets a text unchanged."""

    result: JsonValue
    is_error: bool = False

    @property
    def digest(self) -> bytes:
        """Equal for equal results; in JSON 1, 1.0 and true are different."""
        text = json.dumps([self.result, self.is_error], sort_keys=True)
        return hashlib.sha256(text.encode()).digest()

    def to_tool_result(self) -> ToolResult:
        """The result for the model and for clients, within the limit."""
        result = storable(self.result)
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        encoded = text.encode(errors="replace")
        code: ToolErrorCode | None = "failed" if self.is_error else None
        if len(encoded) <= MAX_RESULT_BYTES:
            return ToolResult(text, result, code)
        cut = encoded[:MAX_RESULT_BYTES].decode(errors="ignore") + _CUT_OFF
        return ToolResult(cut, cut, code)


@dataclass(slots=True)
class _Call:
    published: asyncio.Future[object]
    """Publishes the call; runs to its end even if the call is cancelled meanwhile."""
    result: asyncio.Future[ToolResult] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    digest: bytes | None = None
    """Of the client's answer; None for a call that has ended without."""

    def end(self, text: str, code: ToolErrorCode) -> None:
        """End it without an answer, unless it has ended."""
        if not self.result.done():
            self.result.set_result(_failed(text, code))


class ClientToolCalls:
    """One run's calls of client tools; only used on the loop that executes it."""

    def __init__(
        self, publish: Callable[[ControlEvent], Awaitable[object]], *, timeout: timedelta = timedelta()
    ) -> None:
        """`publish` appends an event to the run's log; `timeout` is how long a call waits."""
        self._publish = publish
        self._timeout = timeout
        self._calls: dict[str, _Call] = {}
        """By tool-call id; of the whole run, so that a result which is sent twice counts once."""
        self._ended = False

    @property
    def is_waiting(self) -> bool:
        """Whether readers of the run see a call without a result."""
        return any(call.published.done() and not call.result.done() for call in self._calls.values())

    async def call(self, name: str, args: JsonValue, *, call_id: str) -> ToolResult:
        """Publish a call, and wait for its result; `name` is the client's own name of the tool."""
        if self._ended:
            return _failed(_RUN_STOPPED, "failed")
        expires_at = (datetime.now(UTC) + self._timeout).isoformat().replace("+00:00", "Z")
        event = ClientToolCall(
            tool_call_id=call_id, tool_name=name, args=storable(args), expires_at=expires_at
        )
        call = self._calls[call_id] = _Call(asyncio.ensure_future(self._publish(event)))
        try:
            await asyncio.shield(call.published)
            await asyncio.wait({call.result}, timeout=self._timeout.total_seconds())
        except AppError:
            call.end(_NOT_SENT, "failed")
        finally:
            call.end(_NOT_ANSWERED, "timeout")
        return call.result.result()

    def answer(self, call_id: str, result: ClientToolResult) -> None:
        """Answer a call; the same result twice counts once.

        Raises `ClientToolCallNotFound`, `ClientToolCallAnswered`.
        """
        if (call := self._calls.get(call_id)) is None:
            raise ClientToolCallNotFound
        digest = result.digest
        if not call.result.done():
            call.result.set_result(result.to_tool_result())
            call.digest = digest
        elif call.digest != digest:
            raise ClientToolCallAnswered

    def end(self) -> None:
        """The run is over: no call waits any more, and none is made."""
        self._ended = True
        for call in self._calls.values():
            call.end(_RUN_STOPPED, "failed")


def _failed(text: str, code: ToolErrorCode) -> ToolResult:
    return ToolResult(text, {"error": code}, code)
