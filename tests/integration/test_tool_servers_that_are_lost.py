"""Tool servers that are lost and found again, calls that take long, and the older transport."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette

from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback
from app.tools.mcp.servers import McpConnector
from app.tools.mcp.spec import AnyServer, HttpServer, SseServer
from app.tools.policy import ToolPolicy
from app.tools.runner import ToolRunner
from runtally.tools.content import ToolImage, ToolText
from runtally.tools.result import ToolResult
from runtally.tools.tool import Tool, ToolContext
from tests.clients.mcp_kinds import server as kinds
from tests.integration.hostile_mcp import HostileServer, serving
from tests.integration.hostile_program import SEARCH
from tests.integration.test_hostile_tool_servers import RUN, connected

FOUND = {"content": [{"type": "text", "text": "found"}]}


@dataclass
class Calls:
    """Calls of the tools of a server, and the progress that they reported."""

    tools: list[Tool]
    progress: list[str] = field(default_factory=list)

    async def call(self, tool_id: str, **arguments: Any) -> ToolResult:
        """What the model gets for a call."""
        tools = {tool.id: tool for tool in self.tools}
        context = ToolContext(run=RUN, tool_call_id="call", report_progress=self._report)
        return await ToolRunner(tools, ToolPolicy(frozenset(tools))).run(tool_id, arguments, context)

    async def _report(self, label: str) -> None:
        self.progress.append(label)


class Forgetful(HostileServer):
    """Forgets its sessions when there is another one."""

    sessions = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, of the current session."""
        headers = dict(scope["headers"])
        session = headers.get(b"mcp-session-id")
        if session is not None and session != f"s{self.sessions}".encode():
            self.methods.append(scope["method"])
            await self._send(send, 404, iter([b""]), {})
            return

        async def with_session(event: Any) -> None:
            if event["type"] == "http.response.start":
                session_id = (b"mcp-session-id", f"s{self.sessions}".encode())
                event = {**event, "headers": [*event["headers"], session_id]}
            await send(event)

        await super().__call__(scope, receive, with_session)


@pytest.mark.parametrize("effect", ["read_only", "external_side_effect"])
async def test_a_call_that_a_forgotten_session_refuses_is_made_in_a_new_one(
    schemas: SchemaChecker, effect: str
) -> None:
    hostile = Forgetful(on_call=lambda _params: FOUND)
    async with serving(hostile) as server, connected(schemas, server, effect=effect) as connections:
        calls = Calls(connections.tools)
        before = await calls.call("library__search")
        hostile.sessions += 1
        after = await calls.call("library__search")

    assert (before.markdown, after.markdown) == ("found", "found")
    assert hostile.methods.count("tools/call") == 2


@pytest.mark.parametrize(("effect", "made"), [("read_only", 2), ("state_change", 1)])
async def test_a_call_that_is_cut_off_is_repeated_only_if_that_is_harmless(
    schemas: SchemaChecker, effect: str, made: int
) -> None:
    answers: list[Any] = [iter([b": nothing follows\n\n"]), FOUND, FOUND]
    hostile = HostileServer(
        lambda _params: {"tools": [SEARCH]},
        lambda _params: answers.pop(0),
        headers={"content-type": "text/event-stream"},
    )
    async with serving(hostile) as server, connected(schemas, server, effect=effect) as connections:
        calls = Calls(connections.tools)
        first = await calls.call("library__search")
        made_first = hostile.methods.count("tools/call")
        second = await calls.call("library__search")

    assert made_first == made
    if effect == "read_only":
        assert first.markdown == "found"
    else:
        assert first.visible == {"error": "tool_server_unavailable"}
        assert "may have taken effect" in first.markdown
    assert second.markdown == "found"


async def test_a_program_that_ends_after_each_answer_is_started_for_each_call(schemas: SchemaChecker) -> None:
    async with connected(schemas, "one answer") as connections:
        calls = Calls(connections.tools)
        pids = [(await calls.call("library__search")).markdown for _ in range(2)]

    assert len({int(pid) for pid in pids} | {os.getpid()}) == 3


async def test_a_server_that_is_gone_is_an_error_of_its_calls_alone(schemas: SchemaChecker) -> None:
    hostile = HostileServer(on_call=lambda _params: FOUND)
    async with serving(hostile) as server, connected(schemas, server, timeout_s=5) as connections:
        calls = Calls(connections.tools)
        server.is_gone = True
        result = await calls.call("library__search")
        server.is_gone = False
        later = await calls.call("library__search")

    assert result.visible == {"error": "tool_server_unavailable"}
    assert later.markdown == "found"


async def test_an_error_of_the_protocol_is_for_the_model_on_one_line(schemas: SchemaChecker) -> None:
    error = {"code": -32000, "message": "no\n\x1b[31m shelf\u202e" + "x" * 5_000}
    hostile = HostileServer(on_call=lambda _params: {"error": error})
    async with serving(hostile) as server, connected(schemas, server) as connections:
        result = await Calls(connections.tools).call("library__search")

    assert result.code == "failed"
    assert result.markdown.startswith("The tool server answered with an error: no [31m shelf x")
    assert len(result.markdown) < 2_100


async def test_a_server_that_does_not_listen_any_more_is_an_error_of_its_calls(
    schemas: SchemaChecker,
) -> None:
    hostile = HostileServer(on_call=lambda _params: FOUND)
    async with AsyncExitStack() as stack:
        async with serving(hostile) as server:
            connections = await stack.enter_async_context(connected(schemas, server, effect="state_change"))
        result = await Calls(connections.tools).call("library__search")

    assert result.visible == {"error": "tool_server_unavailable"}
    assert result.markdown == "The tool server is not available now."


@asynccontextmanager
async def kinds_at(schemas: SchemaChecker, app: Starlette, path: str, **spec: Any) -> AsyncIterator[Calls]:
    """The tools of `mcp_kinds`, over HTTP."""
    async with app.router.lifespan_context(app), serve_on_loopback(app) as url:
        of_type: Any = SseServer if spec["type"] == "sse" else HttpServer
        tools = {"slow": "read_only", "mixed": "read_only"}
        server: AnyServer = of_type(url=f"{url}{path}", tools=tools, **spec)
        connector = McpConnector({}, schemas)
        connections = await connector.connect({"kinds": server}, ["kinds__slow", "kinds__mixed"])
        try:
            yield Calls(connections.tools)
        finally:
            await connections.aclose()


async def test_a_call_may_take_as_long_as_it_reports_progress_up_to_a_limit(schemas: SchemaChecker) -> None:
    http = {"type": "http", "timeout_s": 2.5, "show_progress": False}
    async with kinds_at(schemas, kinds.streamable_http_app(), "/mcp", **http) as calls:
        slow = await calls.call("kinds__slow")
    async with kinds_at(schemas, kinds.streamable_http_app(), "/mcp", **http, max_timeout_s=2.7) as limited:
        too_slow = await limited.call("kinds__slow")

    # It takes 3 s.
    assert slow.markdown == "counted"
    assert calls.progress[0] == "kinds__slow: 1 of 3"
    assert too_slow.code == "timeout"
    assert "within 2.7 seconds" in too_slow.markdown


async def test_the_older_transport_has_the_same_results(schemas: SchemaChecker) -> None:
    async with kinds_at(schemas, kinds.sse_app(), "/sse", type="sse", timeout_s=2.5) as calls:
        mixed = await calls.call("kinds__mixed")
        slow = await calls.call("kinds__slow")

    assert [type(each) for each in mixed.content] == [ToolText, ToolImage, ToolText, ToolImage, ToolText]
    assert slow.markdown == "counted"
    assert calls.progress[-1] == "shelf 3\ufffd of 3"
