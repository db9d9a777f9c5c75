"""Tool calls that their server has taken are not made again, whatever becomes of other requests."""

import asyncio
import json
from typing import Any

import pytest

from app.platform.json_schema.checker import SchemaChecker
from app.platform.server.loopback import Receive, Scope, Send, read_body
from tests.e2e.stories import until
from tests.integration.hostile_mcp import HostileServer, serving
from tests.integration.hostile_program import SEARCH
from tests.integration.test_hostile_tool_servers import connected
from tests.integration.test_tool_servers_that_are_lost import FOUND, Calls, Forgetful
from tests.patience import PATIENCE_S

RESUMABLE = b"id: 1\nretry: 0\ndata:\n\n"
"""A stream that ends without a response, and can be resumed."""
STREAM = {"content-type": "text/event-stream"}


def forgetful(on_call: Any) -> Forgetful:
    return Forgetful(on_call=on_call, headers=STREAM)


async def received(server: HostileServer, method: str) -> None:
    """Wait until the server has received such a message."""
    await until(lambda: method in server.methods)


async def test_a_call_whose_response_cannot_be_resumed_is_not_made_again(schemas: SchemaChecker) -> None:
    def interrupt(_params: Any) -> Any:
        # The session ends, so the request to resume is refused; the call was taken.
        hostile.sessions += 1
        return iter([RESUMABLE])

    hostile = forgetful(interrupt)
    async with serving(hostile) as server, connected(schemas, server, effect="state_change") as connections:
        result = await Calls(connections.tools).call("library__search")

    assert result.visible == {"error": "tool_server_unavailable"}
    assert "may have taken effect" in result.markdown
    assert hostile.methods.count("tools/call") == 1
    assert "GET" in hostile.methods


async def test_a_refused_message_that_is_no_call_does_not_repeat_a_later_call(schemas: SchemaChecker) -> None:
    answers: list[Any] = [None, iter([b": nothing follows\n\n"]), FOUND]
    hostile = forgetful(lambda _params: answers.pop(0))
    hostile.missing = ("notifications/cancelled",)
    async with serving(hostile) as server, connected(schemas, server, effect="state_change") as connections:
        calls = Calls(connections.tools)
        cancelled = asyncio.create_task(calls.call("library__search"))
        await received(hostile, "tools/call")
        cancelled.cancel()
        await received(hostile, "notifications/cancelled")
        interrupted = await calls.call("library__search")

    assert interrupted.visible == {"error": "tool_server_unavailable"}
    assert hostile.methods.count("tools/call") == 2


class Busy(Forgetful):
    """Calls say how they are answered; those that are `held`, when the server is released."""

    def __init__(self) -> None:
        super().__init__(lambda _params: {"tools": [SEARCH]}, lambda _params: FOUND)
        self.calls: list[str] = []
        self.released, self.disconnected = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        body = await read_body(receive)
        request = json.loads(body) if body else {}
        how = request["params"]["arguments"].get("how") if request.get("method") == "tools/call" else None
        if how is not None:
            self.calls.append(how)
        match how:
            case "held":
                await self.released.wait()
            case "no answer":
                await receive()
                self.disconnected.set()
                return
            case "busy":
                await self._send(send, 503, iter([b""]), {})
                return
            case "cut off":
                await self._send(send, 200, iter([b"{"]), {"content-length": "9", **self.headers})
                return

        async def again() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        await super().__call__(scope, again, send)

    async def called(self, how: str) -> None:
        """Wait for such a call."""
        await until(lambda: how in self.calls)


@pytest.mark.parametrize("how", ["busy", "cut off"])
async def test_a_call_that_fails_does_not_end_another_one_that_is_executed(
    schemas: SchemaChecker, how: str
) -> None:
    async with serving(Busy()) as server, connected(schemas, server, effect="state_change") as connections:
        calls = Calls(connections.tools)
        executed = asyncio.create_task(calls.call("library__search", how="held"))
        await server.called("held")
        failed = [await calls.call("library__search", how=how) for _ in range(2)]
        server.released.set()
        found = await executed

    assert [each.visible for each in failed] == [{"error": "tool_server_unavailable"}] * 2
    assert found.markdown == "found"
    assert server.calls == ["held", how, how]


async def test_a_refused_call_is_made_again_while_another_one_is_executed(schemas: SchemaChecker) -> None:
    async with serving(Busy()) as server, connected(schemas, server, effect="state_change") as connections:
        calls = Calls(connections.tools)
        executed = asyncio.create_task(calls.call("library__search", how="held"))
        await server.called("held")
        server.sessions += 1
        refused = await calls.call("library__search", how="another")
        server.sessions -= 1
        server.released.set()
        found = await executed

    assert (refused.markdown, found.markdown) == ("found", "found")


@pytest.mark.parametrize("ending", ["timeout", "cancel"])
async def test_a_call_without_an_answer_does_not_end_the_connection(
    schemas: SchemaChecker, ending: str
) -> None:
    async with (
        serving(Busy()) as server,
        connected(schemas, server, effect="state_change", timeout_s=3) as connections,
    ):
        calls = Calls(connections.tools)
        unanswered = asyncio.create_task(calls.call("library__search", how="no answer"))
        await server.called("no answer")
        if ending == "cancel":
            unanswered.cancel()
        await asyncio.wait({unanswered})
        # When the request for it ends as well.
        async with asyncio.timeout(PATIENCE_S):
            await server.disconnected.wait()
        later = await calls.call("library__search", how="another")

    assert later.markdown == "found"
    assert server.methods.count("initialize") == 1


async def test_a_call_that_outlives_its_run_opens_no_connection(schemas: SchemaChecker) -> None:
    async with serving(Busy()) as server:
        async with connected(schemas, server, effect="read_only") as connections:
            call = asyncio.create_task(Calls(connections.tools).call("library__search", how="no answer"))
            await server.called("no answer")
        result = await call

    assert result.visible == {"error": "tool_server_unavailable"}
    assert server.methods.count("initialize") == 1


async def test_an_error_of_a_server_that_does_not_know_how_to_be_discovered_is_its_own(
    schemas: SchemaChecker,
) -> None:
    error = {"code": -32000, "message": "no shelf"}
    hostile = HostileServer(on_call=lambda _params: {"error": error})
    hostile.missing = ("server/discover",)
    async with serving(hostile) as server, connected(schemas, server) as connections:
        results = [await Calls(connections.tools).call("library__search") for _ in range(2)]

    assert [result.markdown for result in results] == ["The tool server answered with an error: no shelf"] * 2
    assert hostile.methods.count("initialize") == 1
    assert hostile.methods.count("tools/call") == 2
