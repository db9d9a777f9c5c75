"""Connects a run to the MCP servers of its graph."""

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import structlog

from app.errors import AppError, Unavailable
from app.events import GivenAnswers, QuestionItem, RunWarning
from app.executors.port import ABORTED, TIMEOUT, TOOL_SERVER_UNAVAILABLE, ExecutionFailed, RunContext
from app.executors.tools.instructions import with_instructions
from app.executors.waiting.questions import Check
from app.platform.background import first_of
from app.tools.mcp.asking.elicitation import Person, Refusal
from app.tools.mcp.connection import McpServerUnavailable
from app.tools.mcp.servers import McpConnections, McpConnector

log = structlog.get_logger(__name__)


@asynccontextmanager
async def connected_tools(servers: McpConnector, context: RunContext) -> AsyncIterator[RunContext]:
    """The context with the tools of the graph's MCP servers, which stay connected while the body runs.

    The system prompt contains the servers' instructions.

    Raises `ExecutionFailed` if a server is unavailable, or the run is stopped or its time is up before.
    """
    if not context.plan.remote_tools:
        yield context
        return
    connections = await _connect(servers, context)
    try:
        if connections.unusable:
            await context.events.publish(_left_out(connections.unusable))
        plan = context.plan
        spec = with_instructions(plan.spec, connections.instructions)
        plan = replace(plan, spec=spec, tools=(*plan.tools, *connections.tools))
        yield replace(context, plan=plan)
    finally:
        await connections.aclose()


def _left_out(tool_ids: Iterable[str]) -> RunWarning:
    message = "These tools are not offered to the model: their descriptions or schemas cannot be used."
    return RunWarning(code="tools_left_out", message=message, names=sorted(tool_ids))


def _person(context: RunContext) -> Person | None:
    """Whom the servers may ask."""
    if not context.plan.spec.questions:
        return None

    async def ask(questions: Sequence[QuestionItem], *, source: str, check: Check) -> GivenAnswers | Refusal:
        try:
            resolution = await context.control.questions.ask(questions, source=source, check=check)
        except AppError:
            return "cancel"
        if (reply := resolution.answer) is None:
            return "cancel"
        return "decline" if reply.answers is None else reply.answers

    return Person(ask, context.plan.spec.question_timeout_s)


async def _connect(servers: McpConnector, context: RunContext) -> McpConnections:
    plan = context.plan
    try:
        first = await first_of(
            servers.connect(
                plan.spec.mcp_servers, plan.remote_tools, graph=plan.spec.name, person=_person(context)
            ),
            context.control.stop.wait(),
            timeout_s=plan.timeout.total_seconds(),
        )
    except McpServerUnavailable as error:
        log.error("run.start_failed", reason="MCP server unavailable", server=str(error))  # noqa: TRY400
        raise ExecutionFailed(*TOOL_SERVER_UNAVAILABLE) from error
    except Unavailable as error:
        log.error("run.start_failed", reason="schemas of tools cannot be checked")  # noqa: TRY400
        raise ExecutionFailed(*TOOL_SERVER_UNAVAILABLE) from error
    if first is None:
        raise ExecutionFailed(*TIMEOUT)
    if not isinstance(first.result, McpConnections):
        raise ExecutionFailed(*ABORTED)
    return first.result
