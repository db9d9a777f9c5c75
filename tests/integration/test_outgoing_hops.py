"""Requests through an outgoing proxy: what leads there, and at which hop they fail."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.gateway.upstream import MESSAGES, Upstream
from app.platform.hops import HopFailed, reason_of
from app.platform.network import SYSTEM, Network, NoProxy, Proxy
from app.platform.outgoing import outgoing_transport
from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback
from tests.authority import Authority
from tests.outgoing_proxy import CLOSED, SILENT, ConnectProxy, listening, over_tls
from tests.patience import PATIENCE_S

HOST = "provider.test"
URL = f"https://{HOST}/"
PASSWORD = "p@ss:word%2F/nobody-may-see"
CREDENTIALS = ("us er", PASSWORD)
PROXY = "the proxy (RUNTALLY_HTTPS_PROXY)"
UNTRUSTED = "is of an authority that is not trusted: add it to RUNTALLY_CA_FILE"


async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"whole"})


@asynccontextmanager
async def behind_a_proxy(
    authority: Authority, *, certificate: Path | None = None, **proxy: Any
) -> AsyncIterator[tuple[ConnectProxy, Network]]:
    """A server that only the proxy reaches, and the network of a client that can."""
    async with (
        serve_on_loopback(answer) as plain,
        over_tls(plain, certificate or authority.certificate(HOST)) as port,
        listening(ConnectProxy({HOST: port}, **proxy)) as there,
    ):
        yield there, network_of(there, authority)


def network_of(proxy: ConnectProxy, authority: Authority) -> Network:
    found = replace(Proxy.read(proxy.url), credentials=proxy.credentials)
    return Network(found, authorities=authority.file)


async def get(
    network: Network, url: str = URL, *, connect_s: float = 60, has_streams: bool = False, **extensions: Any
) -> str:
    """The body of a response."""
    timeout = httpx2.Timeout(60, connect=connect_s).as_dict()
    request = httpx2.Request("GET", url, extensions={"timeout": timeout, **extensions})
    async with outgoing_transport(network, has_streams=has_streams) as transport:
        response = await transport.handle_async_request(request)
        return (await response.aread()).decode()


async def failure(network: Network, url: str = URL, **options: Any) -> str:
    """Why there is no response."""
    with pytest.raises(HopFailed) as failed:
        await get(network, url, **options)
    assert PASSWORD not in repr(failed.value) + repr(network)
    return reason_of(failed.value)


@pytest.mark.parametrize("credentials", [None, CREDENTIALS])
async def test_a_proxy_leads_to_a_host_that_nothing_else_knows(
    tmp_path: Path, credentials: tuple[str, str] | None
) -> None:
    async with behind_a_proxy(Authority(tmp_path), credentials=credentials) as (proxy, network):
        assert await get(network) == "whole"

    assert proxy.requested == [f"{HOST}:443"]


async def test_a_proxy_may_itself_have_a_certificate(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with (
        behind_a_proxy(authority) as (inner, network),
        listening(ConnectProxy(inner.ports), tls=authority.certificate("localhost")) as proxy,
    ):
        own = replace(network, proxy=Proxy("https", f"localhost:{proxy.port}"))

        assert await get(own) == "whole"
        assert f"certificate of the proxy (RUNTALLY_HTTPS_PROXY) {UNTRUSTED}" in await failure(
            replace(own, authorities=None)
        )


async def test_hosts_that_need_no_proxy_and_plain_http_go_directly(tmp_path: Path) -> None:
    """A server with a name of its own would not be reached directly: no name server knows it."""
    async with behind_a_proxy(Authority(tmp_path)) as (proxy, network), serve_on_loopback(answer) as plain:
        direct = replace(network, no_proxy=NoProxy.read((".test",)))
        with pytest.raises(httpx2.ConnectError):
            await get(direct)
        assert await get(network, plain.replace("127.0.0.1", "localhost")) == "whole"
        with pytest.raises(httpx2.ConnectError):
            await get(network, "http://provider.test/")

    assert proxy.requested == []


@pytest.mark.parametrize(
    ("refuses", "found"),
    [
        (407, "does not accept its user name and password (407)"),
        (403, "refuses to connect to provider.test (403)"),
        (504, "cannot connect to provider.test (504)"),
        (CLOSED, "cannot connect to provider.test (RemoteProtocolError)"),
    ],
)
async def test_what_a_proxy_refuses_is_named(tmp_path: Path, refuses: int, found: str) -> None:
    async with behind_a_proxy(Authority(tmp_path), refuses=refuses) as (_, network):
        assert await failure(network) == f"{PROXY} {found}"


async def test_a_wrong_password_is_named_and_not_shown(tmp_path: Path) -> None:
    async with behind_a_proxy(Authority(tmp_path), credentials=("me", "another")) as (proxy, network):
        wrong = replace(network, proxy=Proxy("http", f"127.0.0.1:{proxy.port}", CREDENTIALS))

        assert "(407)" in await failure(wrong)


async def test_a_proxy_that_is_silent_or_away_is_named(tmp_path: Path) -> None:
    async with behind_a_proxy(Authority(tmp_path), refuses=SILENT) as (_, network):
        reason, connect_s = "", 0.05
        while "cannot connect" not in reason and connect_s < PATIENCE_S:
            # On a busy machine the shortest times are over before the proxy is reached.
            reason = await failure(network, connect_s=connect_s)
            connect_s *= 4
        assert reason == f"{PROXY} cannot connect to provider.test (TimeoutError)"

    assert await failure(network) == f"{PROXY} cannot be reached: ConnectError"


@pytest.mark.parametrize(("is_proxied", "has_streams"), [(True, False), (False, False), (False, True)])
async def test_a_certificate_that_is_not_accepted_is_named(
    tmp_path: Path, *, is_proxied: bool, has_streams: bool
) -> None:
    authority, host = Authority(tmp_path), HOST if is_proxied else "localhost"
    expired = authority.certificate(host, ends=timedelta(days=-1))
    for certificate, authorities, found in (
        (None, None, UNTRUSTED),
        (None, SYSTEM, UNTRUSTED),
        (authority.certificate("other.test"), authority.file, "is for another host"),
        (expired, authority.file, "has expired"),
    ):
        async with behind_a_proxy(authority, certificate=certificate) as (proxy, network):
            url = URL if is_proxied else f"https://localhost:{proxy.ports[HOST]}/"
            reason = await failure(replace(network, authorities=authorities), url, has_streams=has_streams)
            assert reason == f"the certificate of {host} {found}"
    good = authority.certificate(host)
    async with behind_a_proxy(authority, certificate=good) as (proxy, network):
        url = URL if is_proxied else f"https://localhost:{proxy.ports[HOST]}/"
        assert await get(network, url, has_streams=has_streams) == "whole"


async def test_only_a_server_that_may_ask_gets_our_certificate(tmp_path: Path) -> None:
    authority, ours = Authority(tmp_path), Authority(tmp_path, "ours")
    client = ours.certificate("runtally")
    async with (
        serve_on_loopback(answer) as plain,
        over_tls(plain, authority.certificate(HOST), clients=ours.file) as port,
        listening(ConnectProxy({HOST: port})) as proxy,
    ):
        network = network_of(proxy, authority)

        assert await get(replace(network, certificate=(client, client))) == "whole"
        with pytest.raises(httpx2.TransportError):
            await get(network)


async def test_an_agents_prompt_is_sent_only_once_the_provider_gets_it(tmp_path: Path) -> None:
    """The request for a tunnel costs nothing, and neither does a prompt that no tunnel leads to."""
    sent: list[str] = []
    authority = Authority(tmp_path)
    async with behind_a_proxy(authority) as (proxy, network):
        for known in (True, False):
            url = URL if known else "https://unknown.test"
            async with Upstream(base_url=url, api_key="k", network=network) as provider:
                request = provider.request(MESSAGES, b"{}", [], sent=lambda: sent.append("prompt"))
                if known:
                    await (await provider.send(request)).aclose()
                else:
                    with pytest.raises(HopFailed):
                        await provider.send(request)

    assert proxy.requested == [f"{HOST}:443", "unknown.test:443"]
    assert sent == ["prompt"]
