"""Through nginx, HAProxy and Caddy, with the files of deploy/proxies, clients get what the server sends."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import httpx_sse
import pytest
import pytest_asyncio

from app.platform.embedded.ports import free_port
from app.simulator.script import ApiRequest, Hold, Reply, Text
from app.simulator.server import Simulator
from tests.conftest import a_database
from tests.e2e.stories import KEY, PROVIDER_KEY, the_settings
from tests.integration.gateway_seam import FIRST_DELTA
from tests.integration.proxies import PROXIES, Proxy, Restartable, a_proxy
from tests.patience import PATIENCE_S
from tests.programs import require

pytestmark = pytest.mark.asyncio(loop_scope="module")
GRAPH = "messages:assistant"
MAX_BODY_BYTES = 65_536
FAILED_KEYS = 3
UNKNOWN_KEY = "rt_" + "0" * 32
HOLDS: dict[str, Hold] = {}
every_proxy = pytest.mark.parametrize("name", PROXIES)


def respond(request: ApiRequest) -> Reply:
    """Wait in the middle of answers to prompts that have a hold."""
    return Reply([Text("one two three four")], hold=HOLDS.get(request.last_text))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Restartable]:
    port = free_port()
    async with (
        a_database(postgres) as url,
        Simulator(respond, accepted_keys=frozenset({PROVIDER_KEY})) as simulator,
    ):
        settings = the_settings(
            tmp_path_factory.mktemp("server"),
            url,
            simulator.url,
            RUNTALLY_MAX_BODY_BYTES=MAX_BODY_BYTES,
            RUNTALLY_MAX_FAILED_KEYS_PER_MINUTE=FAILED_KEYS,
            # So that a reader who has left must have been noticed before the next is accepted.
            RUNTALLY_MAX_READERS_PER_RUN=1,
        )
        serving = Restartable(settings, port)
        await serving.start()
        yield serving
        await serving.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxies(
    server: Restartable, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[dict[str, Proxy]]:
    require(*PROXIES)
    async with AsyncExitStack() as stack:
        yield {
            name: await stack.enter_async_context(a_proxy(name, tmp_path_factory.mktemp(name), server.port))
            for name in PROXIES
        }


@pytest.fixture
def proxy(proxies: dict[str, Proxy], name: str) -> Proxy:
    return proxies[name]


def a_run(prompt: str, **fields: Any) -> dict[str, Any]:
    return {"graphId": GRAPH, "messages": [{"role": "user", "content": prompt}], **fields}


async def events(response: httpx_sse.EventSource, *, last: str) -> list[httpx_sse.ServerSentEvent]:
    """The events up to the first of a type."""
    found = []
    async for event in response.aiter_sse():
        if event.data:
            found.append(event)
        if event.event == last:
            return found
    raise AssertionError(found)


@every_proxy
async def test_text_arrives_while_the_model_waits_and_a_stream_is_resumed(proxy: Proxy, name: str) -> None:
    hold = HOLDS[f"wait for {name}"] = Hold(index=FIRST_DELTA + 1)
    async with asyncio.timeout(PATIENCE_S):
        async with (
            proxy.client() as http,
            httpx_sse.aconnect_sse(
                http, "POST", "/v1/runs/stream", json=a_run(f"wait for {name}", runId=name)
            ) as source,
        ):
            before = await events(source, last="text_delta")
            version = source.response.http_version
            assert hold.reached.is_set()
        async with proxy.client() as http:
            headers = {"Last-Event-ID": before[-1].id}
            while True:
                async with httpx_sse.aconnect_sse(
                    http, "GET", f"/v1/runs/{name}/events", headers=headers
                ) as source:
                    if source.response.status_code == 200:
                        hold.until.set()
                        after = await events(source, last="done")
                        break
                await asyncio.sleep(0.05)

    assert version == "HTTP/2"
    ids = [int(event.id) for event in before + after]
    assert ids == list(range(1, len(ids) + 1))
    assert (
        "".join(e.json()["delta"] for e in before + after if e.event == "text_delta") == "one two three four"
    )


@every_proxy
async def test_bodies_are_limited_by_the_server(proxy: Proxy, name: str) -> None:
    large, small = (json.dumps(a_run("x" * size)).encode() for size in (3 * 2**20, MAX_BODY_BYTES - 1024))

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(large), 2**16):
            yield large[start : start + 2**16]

    headers = {"Content-Type": "application/json"}
    # httpx does not expect a response before the end of its body over HTTP/2.
    async with proxy.client(http2=False) as http:
        refused = [
            await http.post("/v1/runs", content=content, headers=headers) for content in (large, chunks())
        ]
        accepted = await http.post("/v1/runs", content=small, headers=headers)

    assert [answer.status_code for answer in refused] == [413, 413], name
    assert {answer.headers["content-type"] for answer in refused} == {"application/problem+json"}
    assert accepted.status_code == 202


@every_proxy
async def test_a_client_cannot_choose_the_address_by_which_it_is_limited(proxy: Proxy, name: str) -> None:
    own = f"127.0.1.{1 + list(PROXIES).index(name)}"
    async with proxy.client(UNKNOWN_KEY, address=own) as guessing:
        answers = [
            await guessing.get("/v1/runs", headers=[("X-Forwarded-For", forged)])
            for forged in ("10.0.0.1", "127.0.0.1", "10.0.0.2, 127.0.0.1", "10.0.0.3", "unknown")
        ]
    async with proxy.client(UNKNOWN_KEY, address="127.0.2.1") as other:
        untouched = await other.get("/v1/runs", headers={"X-Forwarded-For": own})

    assert [answer.status_code for answer in answers] == [401] * FAILED_KEYS + [429] * 2
    assert untouched.status_code == 401


@every_proxy
async def test_pages_know_that_the_client_uses_tls(proxy: Proxy, name: str) -> None:
    plain = httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S)
    async with proxy.client() as http, plain:
        signed_in = await http.post(
            "/v1/browser-session", json={"apiKey": KEY}, headers={"X-Forwarded-Proto": "http"}
        )
        redirected = await plain.get(f"http://localhost:{proxy.ports.plain}/v1/runs?limit=1")

    assert "secure" in signed_in.headers["set-cookie"].lower(), name
    assert redirected.status_code == 308
    assert redirected.headers["location"].startswith("https://localhost")
    assert redirected.headers["location"].endswith("/v1/runs?limit=1")


@every_proxy
async def test_metrics_are_not_exposed(proxy: Proxy, name: str) -> None:
    async with proxy.client() as http:
        answers = [await http.get(path) for path in ("/metrics", "/metrics/", "/%6detrics", "/metric%73")]
        usual = await http.get("/v1/graphs")

    assert {answer.status_code for answer in answers} == {404}, name
    # Not from the server, which answers with problem documents.
    assert {"problem" in answer.headers.get("content-type", "") for answer in answers} == {False}
    assert usual.status_code == 200


async def test_a_server_that_restarts_is_missed_and_found_again(
    proxies: dict[str, Proxy], server: Restartable
) -> None:
    heads: list[bytes] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.close()

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(proxy.client()) for proxy in proxies.values()]
        before = await asyncio.gather(*(http.get("/healthz") for http in clients))
        await server.stop()
        missing = await asyncio.gather(*(http.get("/healthz") for http in clients))
        async with await asyncio.start_server(hang_up, "127.0.0.1", server.port):
            cut = await asyncio.gather(*(posted(proxy) for proxy in proxies.values()))
        await server.start()
        after = await asyncio.gather(*(http.get("/healthz") for http in clients))

    assert {answer.status_code for answer in before + after} == {200}
    assert {answer.status_code for answer in missing} | set(cut) <= {502, 503, None}
    # Each proxy has sent it once.
    assert [head.split(b" ")[0] for head in heads] == [b"POST"] * len(PROXIES)


async def posted(proxy: Proxy) -> int | None:
    """The status of the response to a first request; None if the proxy cancels it, as HAProxy does."""
    async with proxy.client() as http:
        try:
            return (await http.post("/v1/runs", json=a_run("once"))).status_code
        except httpx.RemoteProtocolError:
            return None
