"""ToolRunner: executes tool calls: find, check policy, validate, review, run, check, redact."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import structlog
from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, from_json, to_json

from app.platform.serialization.mistakes import problem_of
from app.tools.policy import ToolCallDenied, ToolPolicy
from runtally.tools.content import text_of
from runtally.tools.result import ToolErrorCode, ToolResult
from runtally.tools.tool import ArgumentsRefused, Tool, ToolContext, ToolFailed, ToolOutput, output_of

log = structlog.get_logger(__name__)

_MAX_FAULTS = 10
"""How many invalid arguments are reported at once."""


class _CallFailed(Exception):
    """A call ended without a result; `text` is safe to show to the model."""

    def __init__(self, code: ToolErrorCode, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(text)


class ToolRunner:
    """Executes tool calls; always returns a `ToolResult`, whatever the tool does."""

    def __init__(self, tools: Mapping[str, Tool], policy: ToolPolicy) -> None:
        """`tools` by id."""
        self._tools = tools
        self._policy = policy

    async def run(self, tool_id: str, raw_args: object, context: ToolContext) -> ToolResult:
        """Execute one call with arguments as the model wrote them.

        Raises nothing but a cancellation, which also cancels the tool.
        """
        try:
            tool, args = await self._authorize(tool_id, raw_args, context)
            answer = await _call(tool, args, context)
            if isinstance(answer, ToolResult):
                return answer
            output = _check_output(tool, answer)
            visible = _visible_fields(tool, output.structured)
            return ToolResult(output.markdown, visible, content=output.content)
        except _CallFailed as failure:
            log.warning("tool.failed", tool_id=tool_id, tool_call_id=context.tool_call_id, code=failure.code)
            return ToolResult.failed(failure.text, failure.code)
        except asyncio.CancelledError:
            if _being_cancelled():
                raise
            # The tool awaited a task that was cancelled elsewhere.
            log.exception("tool.crashed", tool_id=tool_id, tool_call_id=context.tool_call_id)
        except (Exception, SystemExit):
            log.exception("tool.crashed", tool_id=tool_id, tool_call_id=context.tool_call_id)
        return ToolResult.failed("The tool failed.")

    async def _authorize(
        self, tool_id: str, raw_args: object, context: ToolContext
    ) -> tuple[Tool, BaseModel]:
        tool = self._find(tool_id)
        args = await _validate(tool, raw_args)
        try:
            reviewed = await self._policy.review(tool, raw_args, context)
        except ToolCallDenied as denied:
            raise _CallFailed("policy_denied", str(denied)) from denied
        # The review may have taken long, and it may have changed the arguments.
        found = self._find(tool_id)
        return found, args if reviewed is raw_args else await _validate(tool, reviewed)

    def _find(self, tool_id: str) -> Tool:
        tool = self._tools.get(tool_id)
        if tool is None:
            raise _CallFailed("unknown_tool", "There is no such tool.")
        if not self._policy.permits(tool_id):
            raise _CallFailed("policy_denied", "This tool is not allowed in this run.")
        if (reason := self._policy.denial_reason()) is not None:
            raise _CallFailed("policy_denied", reason)
        return tool


async def _validate(tool: Tool, raw_args: object) -> BaseModel:
    try:
        return await tool.arguments(raw_args)
    except PydanticSerializationError as error:
        raise _CallFailed("invalid_args", "The arguments are not valid JSON.") from error
    except ArgumentsRefused as error:
        raise _CallFailed("invalid_args", f"The arguments are not valid. {error}") from error
    except ValidationError as error:
        faults = [_fault(detail) for detail in error.errors(include_input=False, include_url=False)]
        text = "The arguments are not valid. " + "; ".join(faults[:_MAX_FAULTS])
        raise _CallFailed("invalid_args", text) from error


def _fault(detail: ErrorDetails) -> str:
    where = ".".join(str(part) for part in detail["loc"]) or "arguments"
    return f"{where}: {problem_of(detail)}"


async def _call(tool: Tool, args: BaseModel, context: ToolContext) -> object:
    deadline = asyncio.timeout(tool.timeout_s)
    timer = _CallTimer(deadline, tool, context)
    try:
        async with deadline:
            return await tool.handler(args, replace(context, report_progress=timer.report_progress))
    except ToolFailed as failure:
        _check_size(tool, str(failure).encode())
        raise _CallFailed(failure.code, str(failure)) from failure
    except Exception as error:
        # A tool's own TimeoutError is a failure like any other.
        if not deadline.expired():
            raise
        text = f"The tool did not answer within {timer.limit_s:g} seconds."
        raise _CallFailed("timeout", text) from error
    finally:
        timer.ended = True


class _CallTimer:
    """Extends the time of a call that reports progress, up to the longest that its tool may take."""

    def __init__(self, deadline: asyncio.Timeout, tool: Tool, context: ToolContext) -> None:
        self._deadline = deadline
        self._tool = tool
        self._context = context
        self._latest = asyncio.get_running_loop().time() + tool.longest_call_s
        self.limit_s = tool.timeout_s
        """The time limit that the call would exceed next."""
        self.ended = False

    async def report_progress(self, label: str) -> None:
        """See `ToolContext`; may come from another task, also after the end of the call."""
        if self.ended or self._deadline.expired():
            return
        next_timeout = asyncio.get_running_loop().time() + self._tool.timeout_s
        self.limit_s = self._tool.timeout_s if next_timeout < self._latest else self._tool.longest_call_s
        self._deadline.reschedule(min(next_timeout, self._latest))
        await self._context.report_progress(label)


def _check_output(tool: Tool, answer: object) -> ToolOutput[BaseModel]:
    output = output_of(tool, answer)
    _check_size(tool, output.markdown.encode())
    _check_size(tool, text_of(output.content).encode())
    return output


def _visible_fields(tool: Tool, structured: BaseModel) -> JsonValue:
    """The fields that clients may see, with their JSON names."""
    written = structured.model_dump_json(by_alias=True, include=set(tool.redact), warnings="error")
    fields: dict[str, JsonValue] = from_json(written)
    # A model with its own serializer may have ignored `include`.
    allowed = {_json_name(tool.output_model, name) for name in tool.redact}
    visible = {name: value for name, value in fields.items() if name in allowed}
    _check_size(tool, to_json(visible))
    return visible


def _json_name(model: type[BaseModel], field: str) -> str:
    if field in model.model_computed_fields:
        return model.model_computed_fields[field].alias or field
    return model.model_fields[field].serialization_alias or field


def _check_size(tool: Tool, result: bytes) -> None:
    if len(result) > tool.max_result_bytes:
        text = f"The result is larger than {tool.max_result_bytes} bytes; request less."
        raise _CallFailed("too_large", text)


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
