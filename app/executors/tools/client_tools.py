"""Tools of the run from those that its client executes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from app.executors.client_calls import MAX_RESULT_BYTES, ClientToolCalls
from app.executors.port import ClientToolSchema, RunContext, RunPlan
from app.platform.json_schema.checker import SchemaChecker
from app.requests.client_tools import ClientTool, client_tool_id
from app.tools.argument_check import check_arguments
from runtally.tools.result import ToolResult
from runtally.tools.tool import Tool, ToolContext, ToolFailed

_NO_RUN = "No tool is called before there is a run."
_NO_DESCRIPTION = "A tool of the application."
_MARGIN_S: Final = 60.0
"""A call ends by its own time limit before the one that holds for every tool."""


def described_client_tools(plan: RunPlan) -> tuple[Tool, ...]:
    """The plan's client tools as the model sees them, without a run that they could be called in."""
    return tuple(
        _tool(tool, plan, _Schema(plan.schemas.client_tools[tool.name]), None) for tool in plan.client_tools
    )


def with_client_tools(context: RunContext, schemas: SchemaChecker) -> RunContext:
    """The context with the tools that came with the request, after all others."""
    plan = context.plan
    if not plan.client_tools:
        return context
    owner = str(plan.run.account_id)
    tools = tuple(
        _tool(
            tool,
            plan,
            _Schema(plan.schemas.client_tools[tool.name], schemas, owner),
            context.control.client_calls,
        )
        for tool in plan.client_tools
    )
    return replace(context, plan=replace(plan, tools=(*plan.tools, *tools)))


class _Arguments(BaseModel):
    """Arguments; the client's own schema validates them."""

    model_config = ConfigDict(extra="allow")


class _Result(BaseModel):
    """Not used: a call returns a `ToolResult`."""


@dataclass(frozen=True, slots=True)
class _Schema:
    """The schema of a client tool's arguments."""

    prepared: ClientToolSchema
    schemas: SchemaChecker | None = None
    owner: str = ""

    @property
    def document(self) -> dict[str, Any]:
        return self.prepared.shown

    async def check(self, args: object) -> None:
        if self.schemas is not None:
            await check_arguments(self.schemas, self.prepared.checked, args, owner=self.owner)


def _tool(declared: ClientTool, plan: RunPlan, schema: _Schema, calls: ClientToolCalls | None) -> Tool:
    async def call(args: BaseModel, context: ToolContext) -> ToolResult:
        if calls is None:
            raise ToolFailed(_NO_RUN)
        return await calls.call(declared.name, args.model_dump(mode="json"), call_id=context.tool_call_id)

    return Tool(
        id=client_tool_id(declared.name),
        description=(declared.description.strip() or _NO_DESCRIPTION) + schema.prepared.note,
        # So calls of one message are sent to the client together; it orders their effects.
        effect="read_only",
        input_model=_Arguments,
        output_model=_Result,
        redact=(),
        timeout_s=plan.spec.client_tool_timeout_s + _MARGIN_S,
        max_result_bytes=MAX_RESULT_BYTES * 2,
        handler=call,
        schema=schema,
    )


def split_by_graph(plan: RunPlan, tools: Sequence[ClientTool]) -> RunPlan:
    """The plan with the tools that its graph takes, and the names of those that it ignores."""
    taken = tuple(tool for tool in tools if plan.spec.takes_client_tool(tool.name))
    ignored = tuple(tool.name for tool in tools if not plan.spec.takes_client_tool(tool.name))
    return replace(plan, client_tools=taken, ignored_client_tools=ignored)
