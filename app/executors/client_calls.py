"""ClientToolCalls: calls of the tools that the client executes; they wait for its results."""

import hashlib
import json
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from pydantic import JsonValue, TypeAdapter

from app.errors import AppError, Conflict, NotFound
from app.events import ClientToolCall
from app.executors.waiting.calls import CallKind, Publish, WaitingCalls
from app.executors.waiting.port import Waits
from app.storable import storable
from runtally.tools.result import ToolResult

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
class ClientAnswer:
    """A result as it is kept: within the limit, with the digest of all of it, by which it is compared."""

    digest: str
    text: str = field(compare=False)
    visible: JsonValue = field(compare=False)
    is_error: bool = field(compare=False)


@dataclass(frozen=True, slots=True)
class ClientToolResult:
    """What the client answers to a call: any JSON, of which the model gets a text unchanged."""

    result: JsonValue
    is_error: bool = False

    @property
    def kept(self) -> ClientAnswer:
        """What is kept of it; equal for equal results: in JSON 1, 1.0 and true are different."""
        whole = json.dumps([self.result, self.is_error], sort_keys=True)
        digest = hashlib.sha256(whole.encode()).hexdigest()
        result = storable(self.result)
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        encoded = text.encode(errors="replace")
        if len(encoded) <= MAX_RESULT_BYTES:
            return ClientAnswer(digest, text, result, self.is_error)
        cut = encoded[:MAX_RESULT_BYTES].decode(errors="ignore") + _CUT_OFF
        return ClientAnswer(digest, cut, cut, self.is_error)


CLIENT_TOOL_CALLS: Final = CallKind(
    "client_tool",
    TypeAdapter(ClientAnswer),
    unknown=ClientToolCallNotFound,
    answered=ClientToolCallAnswered,
)


class ClientToolCalls:
    """One run's calls of client tools; only used on the loop that executes it."""

    def __init__(self, publish: Publish, waits: Waits, *, timeout: timedelta = timedelta()) -> None:
        """`timeout` is how long a call waits."""
        self.calls = WaitingCalls(publish, timeout, CLIENT_TOOL_CALLS, waits)

    async def call(self, name: str, args: JsonValue, *, call_id: str) -> ToolResult:
        """Publish a call, and wait for its result; `name` is the client's own name of the tool."""
        try:
            resolution = await self.calls.wait(
                call_id,
                lambda expires_at: ClientToolCall(
                    tool_call_id=call_id, tool_name=name, args=storable(args), expires_at=expires_at
                ),
                tool_call_id=call_id,
            )
        except AppError:
            return ToolResult.failed(_NOT_SENT)
        if (answer := resolution.answer) is not None:
            return ToolResult(answer.text, answer.visible, "failed" if answer.is_error else None)
        if resolution.reason == "expired":
            return ToolResult.failed(_NOT_ANSWERED, "timeout")
        return ToolResult.failed(_RUN_STOPPED)

    async def answer(self, call_id: str, result: ClientToolResult) -> None:
        """Answer a call; the same result twice counts once.

        Raises `ClientToolCallNotFound`, `ClientToolCallAnswered`.
        """
        await self.calls.answer(call_id, result.kept)
