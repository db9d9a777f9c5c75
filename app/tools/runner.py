"""ToolRunner: find → allow → validate → review → run → check → redact → report."""

import asyncio
from collections.abc import Mapping

import structlog
from pydantic import BaseModel, JsonValue, ValidationError
from pydantic_core import ErrorDetails, PydanticSerializationError, from_json, to_json

from app.tools.policy import ToolCallDenied, ToolPolicy
from app.tools.result import ToolErrorCode, ToolResult
from app.tools.tool import ArgumentsRefused, Tool, ToolContext, ToolFailed, ToolOutput, ToolResultTooLarge

log = structlog.get_logger(__name__)

_MAX_FAULTS = 10
"""How many wrong arguments are named at once."""


class _CallFailed(Exception):
    """A call ended without a result; `text` is safe to show to the model."""

    def __init__(self, code: ToolErrorCode, text: str) -> None:
        self.code = code
        self.text = text
        super().__init__(text)


class ToolRunner:
    """Runs tool calls; whatever a tool does, its caller gets a `ToolResult`."""

    def __init__(self, tools: Mapping[str, Tool], policy: ToolPolicy) -> None:
        """`tools` by id."""
        self._tools = tools
        self._policy = policy

    async def run(self, tool_id: str, raw_args: object, context: ToolContext) -> ToolResult:
        """Run one call with arguments as the model wrote them.

        Never raises but for cancellation, which is passed on to the tool and out again.
        """
        logger = log.bind(tool_id=tool_id, tool_call_id=context.tool_call_id)
        try:
            tool, args = await self._admitted(tool_id, raw_args, context)
            output = _checked(tool, await _called(tool, args, context))
            return ToolResult(output.markdown, _redacted(tool, output.structured))
        except _CallFailed as failure:
            logger.warning("tool call failed", code=failure.code)
            return ToolResult(failure.text, {"error": failure.code}, failure.code)
        except asyncio.CancelledError:
            if _being_cancelled():
                raise
            # The tool awaited something that somebody else had cancelled.
            logger.exception("tool call failed", code="failed")
        except (Exception, SystemExit):
            logger.exception("tool call failed", code="failed")
        return ToolResult("The tool failed.", {"error": "failed"}, "failed")

    async def _admitted(self, tool_id: str, raw_args: object, context: ToolContext) -> tuple[Tool, BaseModel]:
        tool = self._find(tool_id)
        args = await _validated(tool, raw_args)
        try:
            reviewed = await self._policy.review(tool, raw_args, context)
        except ToolCallDenied as denied:
            raise _CallFailed("policy_denied", str(denied)) from denied
        # The review may have taken its time, and it may have changed the arguments.
        found = self._find(tool_id)
        return found, args if reviewed is raw_args else await _validated(tool, reviewed)

    def _find(self, tool_id: str) -> Tool:
        tool = self._tools.get(tool_id)
        if tool is None:
            raise _CallFailed("unknown_tool", "There is no such tool.")
        if not self._policy.permits(tool_id):
            raise _CallFailed("policy_denied", "This tool is not allowed in this run.")
        if (objection := self._policy.objection()) is not None:
            raise _CallFailed("policy_denied", objection)
        return tool


async def _validated(tool: Tool, raw_args: object) -> BaseModel:
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
    return f"{where}: {detail['msg'].removeprefix('Value error, ')}"


async def _called(tool: Tool, args: BaseModel, context: ToolContext) -> object:
    deadline = asyncio.timeout(tool.timeout_s)
    try:
        async with deadline:
            return await tool.handler(args, context)
    except ToolFailed as failure:
        _weigh(tool, str(failure).encode())
        code: ToolErrorCode = "too_large" if isinstance(failure, ToolResultTooLarge) else "failed"
        raise _CallFailed(code, str(failure)) from failure
    except Exception as error:
        # A tool's own TimeoutError is a failure like any other.
        if not deadline.expired():
            raise
        text = f"The tool did not answer within {tool.timeout_s:g} seconds."
        raise _CallFailed("timeout", text) from error


def _checked(tool: Tool, output: object) -> ToolOutput[BaseModel]:
    if not isinstance(output, ToolOutput) or not isinstance(output.structured, tool.output_model):
        message = f"{tool.id} did not return ToolOutput[{tool.output_model.__name__}]"
        raise TypeError(message)
    _weigh(tool, output.markdown.encode())
    return output


def _redacted(tool: Tool, structured: BaseModel) -> JsonValue:
    """The visible fields as JSON, named as the model names them when it is serialized."""
    written = structured.model_dump_json(by_alias=True, include=set(tool.redact), warnings="error")
    fields: dict[str, JsonValue] = from_json(written)
    # A model with a serializer of its own may have ignored `include`.
    allowed = {_written_name(tool.output_model, name) for name in tool.redact}
    visible = {name: value for name, value in fields.items() if name in allowed}
    _weigh(tool, to_json(visible))
    return visible


def _written_name(model: type[BaseModel], field: str) -> str:
    if field in model.model_computed_fields:
        return model.model_computed_fields[field].alias or field
    return model.model_fields[field].serialization_alias or field


def _weigh(tool: Tool, result: bytes) -> None:
    if len(result) > tool.max_result_bytes:
        text = f"The result is larger than {tool.max_result_bytes} bytes; ask for less."
        raise _CallFailed("too_large", text)


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
