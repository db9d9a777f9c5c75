"""Connects a run to the MCP servers of its graph."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import structlog

from app.background import first_of
from app.executors.port import ABORTED, TIMEOUT, ExecutionFailed, RunContext
from app.tools.mcp_servers import McpConnections, McpConnector, McpServerUnavailable

log = structlog.get_logger(__name__)


@asynccontextmanager
async def connected_tools(servers: McpConnector, context: RunContext) -> AsyncIterator[RunContext]:
    """The context with the tools of the graph's MCP servers, which stay connected while the body runs.

    Raises `ExecutionFailed` if a server is unavailable, or the run is stopped or its time is up before.
    """
    connections = await _connect(servers, context)
    try:
        plan = replace(context.plan, tools=(*context.plan.tools, *connections.tools))
        yield replace(context, plan=plan)
    finally:
        await connections.aclose()


async def _connect(servers: McpConnector, context: RunContext) -> McpConnections:
    plan = context.plan
    try:
        first = await first_of(
            servers.connect(plan.spec.mcp_servers, plan.remote_tools),
            context.control.stop.wait(),
            timeout_s=plan.timeout.total_seconds(),
        )
    except McpServerUnavailable as error:
        log.error("run.start_failed", reason="MCP server unavailable", server=str(error))  # noqa: TRY400
        raise ExecutionFailed("provider_unavailable") from error
    if first is None:
        raise ExecutionFailed(*TIMEOUT)
    if not isinstance(first.result, McpConnections):
        raise ExecutionFailed(*ABORTED)
    return first.result
