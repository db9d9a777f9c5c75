"""Tool servers that answer something else than was requested, or nothing, and tools that no model takes."""

import asyncio
import json
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.loopback import Receive, Scope, Send
from tests.integration.hostile_mcp import HostileServer, serving
from tests.integration.hostile_program import SEARCH
from tests.integration.test_hostile_tool_servers import ID, call, connected
from tests.patience import PATIENCE_S

EITHER = {"type": "object", "properties": {"q": {"type": "string"}}, "anyOf": [{"required": ["q"]}]}


class WithSession(HostileServer):
    """Opens a session, and never answers its end."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["method"] == "DELETE":
            self.methods.append("DELETE")
            await asyncio.Event().wait()

        async def with_session(event: Any) -> None:
            if event["type"] == "http.response.start":
                event = {**event, "headers": [*event["headers"], (b"mcp-session-id", b"s1")]}
            await send(event)

        await super().__call__(scope, receive, with_session)


async def test_a_server_that_does_not_answer_the_end_of_a_session_keeps_no_run(
    schemas: SchemaChecker,
) -> None:
    async with (
        serving(WithSession()) as server,
        asyncio.timeout(PATIENCE_S),
        connected(schemas, server, timeout_s=10 * PATIENCE_S),
    ):
        pass

    assert server.methods[-1] == "DELETE"


async def test_a_schema_with_alternatives_is_checked_though_no_model_takes_it(schemas: SchemaChecker) -> None:
    tools = [{**SEARCH, "inputSchema": EITHER}]
    async with (
        serving(HostileServer(lambda _params: {"tools": tools})) as server,
        connected(schemas, server) as connections,
    ):
        (tool,) = connections.tools
        bad, good = await call(connections), await call(connections, q="x")

    assert tool.schema is not None
    assert "anyOf" not in tool.schema.document
    assert '"anyOf"' in tool.description
    assert (bad.code, good.code) == ("invalid_args", None)


async def test_any_number_of_runs_may_connect_at_once(schemas: SchemaChecker) -> None:
    listed = count()

    def a_new_schema(_params: object) -> dict[str, Any]:
        return {"tools": [{**SEARCH, "inputSchema": {"type": "object", "title": str(next(listed))}}]}

    async def tools_of_a_run(server: HostileServer) -> list[str]:
        async with connected(schemas, server) as connections:
            return [tool.id for tool in connections.tools]

    async with (
        serving(HostileServer(a_new_schema)) as server,
        asyncio.timeout(PATIENCE_S),
        asyncio.TaskGroup() as runs,
    ):
        started = [runs.create_task(tools_of_a_run(server)) for _ in range(40)]

    assert [run.result() for run in started] == [[ID]] * 40
    assert next(listed) == 40


ANSWERS = {
    "another id": {"jsonrpc": "2.0", "id": 999, "result": {"content": []}},
    "no id": {"jsonrpc": "2.0", "result": {"content": []}},
    "a text as id": {"jsonrpc": "2.0", "id": "' OR 1=1", "result": {"content": []}},
    "another version": {"jsonrpc": "1.0", "id": 1, "result": {"content": []}},
    "an error that is none": {"jsonrpc": "2.0", "id": 1, "error": "no"},
    "a list": [],
    "a request": {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}},
    "nothing": None,
}


@pytest.mark.parametrize("answer", ANSWERS)
async def test_a_call_whose_answer_is_none_is_an_error_for_the_model(
    schemas: SchemaChecker, answer: str
) -> None:
    body = json.dumps(ANSWERS[answer]).encode()
    hostile = HostileServer(on_call=lambda _params: iter([body]))
    async with (
        serving(hostile) as server,
        connected(schemas, server) as connections,
        asyncio.timeout(PATIENCE_S),
    ):
        # Not as a limit of the connection, which may take longer than a call that ends without an answer.
        connections.tools = [replace(tool, timeout_s=0.3) for tool in connections.tools]
        result = await call(connections)

    assert result.is_error
    assert result.code in {"failed", "timeout"}
