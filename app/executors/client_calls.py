"""ClientToolCalls: calls of the tools that the client executes; they wait for its results."""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from pydantic import JsonValue

from app.errors import AppError, Conflict, NotFound
from app.events import ClientToolCall
from app.executors.waiting.calls import Publish, WaitingCalls
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


@dataclass(frozen=True, slots=True)
class _Answer:
    """A result of the client; compared by its digest."""

    digest: bytes
    result: ToolResult = field(compare=False)


class ClientToolCalls:
    """One run's calls of client tools; only used on the loop that executes it."""

    def __init__(self, publish: Publish, *, timeout: timedelta = timedelta()) -> None:
        """`timeout` is how long a call waits."""
        self._calls = WaitingCalls[_Answer](
            publish, timeout, unknown=ClientToolCallNotFound, answered=ClientToolCallAnswered
        )

    @property
    def is_waiting(self) -> bool:
        """Whether readers of the run see a call without a result."""
        return self._calls.is_waiting

    async def call(self, name: str, args: JsonValue, *, call_id: str) -> ToolResult:
        """Publish a call, and wait for its result; `name` is the client's own name of the tool."""
        try:
            resolution = await self._calls.wait(
                call_id,
                lambda expires_at: ClientToolCall(
                    tool_call_id=call_id, tool_name=name, args=storable(args), expires_at=expires_at
                ),
            )
        except AppError:
            return _failed(_NOT_SENT, "failed")
        if resolution.answer is not None:
            return resolution.answer.result
        if resolution.reason == "expired":
            return _failed(_NOT_ANSWERED, "timeout")
        return _failed(_RUN_STOPPED, "failed")

    async def answer(self, call_id: str, result: ClientToolResult) -> None:
        """Answer a call; the same result twice counts once.

        Raises `ClientToolCallNotFound`, `ClientToolCallAnswered`.
        """
        await self._calls.answer(call_id, _Answer(result.digest, result.to_tool_result()))

    async def end(self) -> None:
        """The run is over: no call waits any more, and none is made."""
        await self._calls.end()


def _failed(text: str, code: ToolErrorCode) -> ToolResult:
    return ToolResult(text, {"error": code}, code)
