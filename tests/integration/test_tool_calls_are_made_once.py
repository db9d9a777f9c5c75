"""Tool calls that their server has taken are not made again, whatever becomes of other requests."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.json_schema.checker import SchemaChecker
from tests.integration.hostile_mcp import SEARCH, HostileServer, serving
from tests.integration.test_hostile_tool_servers import connected
from tests.integration.test_tool_servers_that_are_lost import FOUND, Calls, Forgetful

RESUMABLE = b"id: 1\nretry: 0\ndata:\n\n"
"""A stream that ends without a response, and can be resumed."""
STREAM = {"content-type": "text/event-stream"}


@pytest.fixture
async def schemas() -> AsyncIterator[SchemaChecker]:
    async with SchemaChecker(workers=1, check_s=0.1) as checker:
        yield checker


def forgetful(on_call: Any) -> Forgetful:
    return Forgetful(lambda _params: {"tools": [SEARCH]}, on_call, headers=STREAM)


async def received(server: HostileServer, method: str) -> None:
    """Wait until the server has received such a message."""
    async with asyncio.timeout(20):
        while method not in server.methods:
            await asyncio.sleep(0.01)


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


async def test_a_refused_call_is_made_again_while_another_one_is_executed(schemas: SchemaChecker) -> None:
    def answer(params: dict[str, Any]) -> Any:
        return None if params["arguments"] else FOUND

    hostile = forgetful(answer)
    async with serving(hostile) as server, connected(schemas, server, effect="state_change") as connections:
        calls = Calls(connections.tools)
        executed = asyncio.create_task(calls.call("library__search", q="slow"))
        await received(hostile, "tools/call")
        hostile.sessions += 1
        refused = await calls.call("library__search")
        cut_off = await executed

    assert refused.markdown == "found"
    assert cut_off.visible == {"error": "tool_server_unavailable"}
    assert hostile.methods.count("tools/call") == 2


async def test_an_error_of_a_server_that_does_not_know_how_to_be_discovered_is_its_own(
    schemas: SchemaChecker,
) -> None:
    error = {"code": -32000, "message": "no shelf"}
    hostile = HostileServer(lambda _params: {"tools": [SEARCH]}, lambda _params: {"error": error})
    hostile.missing = ("server/discover",)
    async with serving(hostile) as server, connected(schemas, server) as connections:
        results = [await Calls(connections.tools).call("library__search") for _ in range(2)]

    assert [result.markdown for result in results] == ["The tool server answered with an error: no shelf"] * 2
    assert hostile.methods.count("initialize") == 1
    assert hostile.methods.count("tools/call") == 2
