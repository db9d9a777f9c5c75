"""Tool servers that send more than was requested, and how much of it is held here."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from app.ids import AccountId, RunId, RunKey, new_uuid
from app.platform.json_schema.checker import SchemaChecker
from app.tools.mcp import servers
from app.tools.mcp.connection import CONNECT_S, McpServerUnavailable
from app.tools.mcp.http import BoundedTransport
from app.tools.mcp.limits import ResponseLimit
from app.tools.mcp.spec import HttpServer, StdioServer
from app.tools.policy import ToolPolicy
from app.tools.runner import ToolRunner
from runtally.tools.result import ToolResult
from runtally.tools.tool import ToolContext
from tests.bystander import a_bystander
from tests.integration.hostile_mcp import HostileServer, serving
from tests.integration.hostile_program import NOISE, SEARCH, without_end
from tests.unit.platform.json_schema.schemas import a_bomb

MB = 2**20
ROOT = str(Path(__file__).parents[2])
ID = "library__search"
RUN = RunKey(AccountId(new_uuid()), RunId("run"))


@asynccontextmanager
async def connected(
    schemas: SchemaChecker,
    server: HostileServer | str,
    wanted: tuple[str, ...] = (ID,),
    *,
    effect: str = "read_only",
    **more: Any,
) -> AsyncIterator[servers.McpConnections]:
    """Connections to a server: over HTTP, or to a program that was told how to behave."""
    tools = {tool_id.partition("__")[2]: effect for tool_id in wanted}
    if isinstance(server, str):
        command = [sys.executable, "-m", "tests.integration.hostile_program", server]
        env = {"PYTHONPATH": ROOT}
        spec: Any = StdioServer(type="stdio", command=command, env=env, tools=tools, **more)
    else:
        spec = HttpServer(type="http", url=server.url, tools=tools, **more)
    connections = await servers.McpConnector({}, schemas).connect({"library": spec}, wanted)
    try:
        yield connections
    finally:
        await connections.aclose()


async def call(connections: servers.McpConnections, **arguments: Any) -> ToolResult:
    """What the model gets for a call."""
    tools = {tool.id: tool for tool in connections.tools}
    policy = ToolPolicy(frozenset(tools), lambda: None, _unchanged)
    context = ToolContext(run=RUN, tool_call_id="call")
    return await ToolRunner(tools, policy).run(ID, arguments, context)


async def _unchanged(_tool: object, args: object, _context: ToolContext) -> object:
    return args


async def most_memory(work: Any) -> int:
    """Do the work; the most memory this process had meanwhile, beyond what it began with."""
    process = psutil.Process()
    before = most = process.memory_info().rss
    doing = asyncio.ensure_future(work)
    while not doing.done():
        most = max(most, process.memory_info().rss)
        await asyncio.wait({doing}, timeout=0.005)
    await doing
    return most - before


async def refused(schemas: SchemaChecker, server: HostileServer | str, **more: Any) -> None:
    """Connecting fails."""
    with pytest.raises(McpServerUnavailable):
        async with connected(schemas, server, **more):
            pass


async def test_a_list_without_end_is_read_to_a_limit_and_not_kept(schemas: SchemaChecker) -> None:
    pages = 0

    def page(_params: dict[str, Any]) -> dict[str, Any]:
        nonlocal pages
        pages += 1
        tool = {**SEARCH, "name": f"other{pages}", "description": "x" * 900_000}
        return {"tools": [tool], "nextCursor": str(pages)}

    async with serving(HostileServer(page)) as server:
        grown = await most_memory(refused(schemas, server))

    assert pages == servers.MAX_PAGES
    assert grown < 30 * MB, f"{grown / MB:.0f} MB"


async def test_a_list_is_read_no_further_than_needed(schemas: SchemaChecker) -> None:
    async with (
        serving(HostileServer(lambda _params: {"tools": [SEARCH], "nextCursor": "more"})) as server,
        connected(schemas, server) as connections,
    ):
        assert [tool.id for tool in connections.tools] == [ID]

    assert server.methods.count("tools/list") == 1


@pytest.mark.parametrize(
    ("content_type", "start", "chunk"),
    [
        ("application/json", b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "', b"x" * 65_536),
        ("text/event-stream", b"event: message\ndata: ", b"x" * 65_536),
        ("text/event-stream", b"", b"event: message\ndata: {}\nid: 1\nretry: 0\n\n" * 1_000),
    ],
    ids=["one answer", "one event", "many events"],
)
async def test_an_answer_without_end_is_cut_off(
    schemas: SchemaChecker, content_type: str, start: bytes, chunk: bytes
) -> None:
    hostile = HostileServer(lambda _params: without_end(start, chunk), headers={"content-type": content_type})
    async with serving(hostile) as server:
        grown = await most_memory(refused(schemas, server))

    # The limit is a bit over 1 MiB; the server would have sent 200.
    assert grown < 40 * MB, f"{grown / MB:.0f} MB"


class Pieces(httpx2.AsyncBaseTransport, httpx2.AsyncByteStream):
    """Answers with these pieces."""

    def __init__(self, *pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, request=request, stream=self)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in chain(*self._pieces):
            yield piece


@pytest.mark.parametrize(
    "pieces",
    [([b"x" * MB], repeat(b"x", 200_000)), ([b'"\\ud800' + b"\\n" * (3 * MB) + b'"'],)],
    ids=["byte by byte", "in one piece"],
)
async def test_a_large_answer_keeps_nobody_waiting(pieces: tuple[Iterable[bytes], ...]) -> None:
    transport = BoundedTransport(Pieces(*pieces), ResponseLimit(8 * MB), response_s=30)
    async with a_bystander() as bystander, httpx2.AsyncClient(transport=transport) as http:
        began = time.thread_time()
        answer = await http.post("http://127.0.0.1/")
        took = time.thread_time() - began

    assert len(answer.content) > MB
    # Counted, not timed: a collection of garbage can take as long as the answer.
    assert bystander.turns > 20
    assert took < 10


@asynccontextmanager
async def waits_of_others() -> AsyncIterator[list[float]]:
    """The CPU seconds that another task waits for each of its turns of the event loop."""
    waits: list[float] = []

    async def watch() -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0.005)
            waits.append(time.thread_time() - began)

    watching = asyncio.create_task(watch())
    yield waits
    watching.cancel()


async def test_an_answer_of_too_many_values_is_not_parsed(schemas: SchemaChecker) -> None:
    many = b'{"jsonrpc": "2.0", "id": 1, "result": {"tools": [' + b"[]," * 300_000 + b"[]]}}"
    async with serving(HostileServer(lambda _params: iter([many]))) as server, waits_of_others() as waits:
        grown = await most_memory(refused(schemas, server))

    # Read, it comes to 1.2 million objects.
    assert grown < 20 * MB, f"{grown / MB:.0f} MB"
    assert max(waits) < 1


async def test_an_answer_that_would_be_unpacked_is_refused(schemas: SchemaChecker) -> None:
    async with serving(HostileServer(packed=True)) as server:
        await refused(schemas, server)


async def test_a_result_over_its_limit_is_truncated_and_one_without_end_an_error(
    schemas: SchemaChecker,
) -> None:
    def answer(params: dict[str, Any]) -> Any:
        if params["arguments"] == {"q": "endless"}:
            return without_end(b'{"jsonrpc": "2.0", "id": 1, "result": {"x": "')
        return {"content": [{"type": "text", "text": "x" * params["arguments"]["n"]}]}

    async with (
        serving(HostileServer(on_call=answer)) as server,
        connected(schemas, server, max_result_bytes=1_000) as connections,
    ):
        endless = await call(connections, q="endless")
        long = await call(connections, n=1_001)
        fits = await call(connections, n=1_000)

    assert (endless.code, long.code, fits.code) == ("too_large", None, None)
    assert "too large to be read" in endless.markdown
    assert long.markdown.startswith(fits.markdown)
    assert "truncated: 1 bytes of text are missing" in long.markdown


async def test_a_program_that_never_ends_its_line_is_not_listened_to(schemas: SchemaChecker) -> None:
    grown = await most_memory(refused(schemas, "endless line"))

    assert grown < 20 * MB, f"{grown / MB:.0f} MB"


async def test_a_program_whose_answer_never_ends_is_an_error_for_the_model(schemas: SchemaChecker) -> None:
    async with connected(schemas, "endless answer", max_result_bytes=1_000) as connections:
        first = await call(connections)
        second = await call(connections)

    assert first.code == "too_large"
    assert second.is_error


@pytest.mark.parametrize("noise", NOISE)
async def test_noise_keeps_nothing_else_from_running(schemas: SchemaChecker, noise: str) -> None:
    began = time.thread_time()
    async with waits_of_others() as waits:
        grown = await most_memory(refused(schemas, noise))

    # It is not listened to for as long as it makes noise.
    assert time.thread_time() - began < CONNECT_S / 2
    assert grown < 20 * MB, f"{grown / MB:.0f} MB"
    assert sorted(waits)[len(waits) // 2] < 0.25


@pytest.mark.parametrize(
    "described",
    [
        {"inputSchema": {"type": "object", "$ref": "http://127.0.0.1:9/x"}},
        {"inputSchema": {"type": "object", "properties": {"q": {"pattern": "(a"}}}},
        {"inputSchema": a_bomb()},
        {"outputSchema": a_bomb()},
        {"outputSchema": {"type": "object", "definitions": {"a": {"$id": "file:///x", "$ref": "y"}}}},
        {"description": "x" * 20_001},
    ],
    ids=["refers outside", "pattern", "bomb", "bomb of results", "refers outside by results", "description"],
)
async def test_a_tool_that_cannot_be_checked_is_left_out_and_named(
    schemas: SchemaChecker, described: dict[str, Any]
) -> None:
    tools = [{**SEARCH, **described}, {**SEARCH, "name": "other"}]
    async with (
        serving(HostileServer(lambda _params: {"tools": tools})) as server,
        connected(schemas, server, (ID, "library__other")) as connections,
    ):
        assert [tool.id for tool in connections.tools] == ["library__other"]
        assert list(connections.unusable) == [ID]


async def test_results_are_held_against_their_schema_and_not_by_the_library(schemas: SchemaChecker) -> None:
    output = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    content = [{"type": "text", "text": "found"}]

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        return {"content": content, **params["arguments"]}

    tools = [{**SEARCH, "outputSchema": output}]
    async with (
        serving(HostileServer(lambda _params: {"tools": tools}, answer)) as server,
        connected(schemas, server) as connections,
    ):
        good = await call(connections, structuredContent={"n": 1})
        bad = await call(connections, structuredContent={"n": "1"})
        none = await call(connections)

    assert (good.code, good.markdown) == (None, "found")
    assert (bad.code, none.code) == ("failed", "failed")
    assert "does not match its own schema" in bad.markdown


@pytest.mark.parametrize("name", [["search"], None, {"a": 1}, 7])
async def test_what_is_no_list_of_tools_is_no_tool(schemas: SchemaChecker, name: object) -> None:
    async with serving(HostileServer(lambda _params: {"tools": [{**SEARCH, "name": name}, 1]})) as server:
        await refused(schemas, server)
