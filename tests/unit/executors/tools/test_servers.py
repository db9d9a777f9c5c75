import asyncio
from datetime import timedelta
from typing import Any

import pytest

from app.executors.port import ExecutionFailed
from app.executors.tools.servers import connected_tools
from app.platform.json_schema.checker import SchemaChecker
from app.tools.mcp.servers import McpConnector
from app.tools.mcp.spec import StdioServer
from tests.factories import a_context, a_plan
from tests.unit.executors.claude_agent.an_executor import a_graph


def of_a_server(command: str, *args: str) -> dict[str, StdioServer]:
    server = StdioServer(type="stdio", command=(command, *args), tools={"look": "read_only"})
    return {"shop": server}


async def outcome_of(servers: dict[str, StdioServer], *, stopped: bool = False, **fields: Any) -> object:
    plan = a_plan(
        spec=a_graph(mcp_servers=servers),
        remote_tools=("shop__look",),
        **{"timeout": timedelta(seconds=30), **fields},
    )
    context = a_context(plan)
    if stopped:
        asyncio.get_running_loop().call_soon(context.control.stop.set)
    schemas = SchemaChecker(workers=1, check_s=1)
    with pytest.raises(ExecutionFailed) as failed:
        async with connected_tools(McpConnector({}, schemas), context):
            pass
    return failed.value.outcome


async def test_a_server_that_cannot_be_started_ends_the_run() -> None:
    assert await outcome_of(of_a_server("/no/such/program")) == ("tool_server_unavailable", "error")


async def test_a_run_that_is_stopped_does_not_wait_for_its_servers() -> None:
    assert await outcome_of(of_a_server("sleep", "60"), stopped=True) == ("aborted", "aborted")


async def test_a_run_whose_time_is_up_does_not_wait_for_its_servers() -> None:
    servers = of_a_server("sleep", "60")
    assert await outcome_of(servers, timeout=timedelta(seconds=0.05)) == ("timeout", "timeout")


async def test_a_run_without_servers_keeps_its_tools() -> None:
    context = a_context()
    async with connected_tools(McpConnector({}, SchemaChecker(workers=1, check_s=1)), context) as connected:
        assert connected.plan == context.plan
