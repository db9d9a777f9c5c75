"""A server whose only way to the provider is a proxy that wants a password, with a company's certificates."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
from structlog.testing import capture_logs

from app.cli.addresses import listen, url_of
from app.cli.serve import served
from app.doctor.examination import examine
from app.platform.embedded.ports import free_port
from app.platform.settings import Settings
from app.simulator.script import Hold, Reply, Text, in_turn
from app.simulator.server import Simulator
from tests.authority import Authority
from tests.e2e.agents import MESSAGES, every_agent
from tests.e2e.servers import a_server
from tests.e2e.stories import PROVIDER_KEY, a_client, a_request, shown_by, the_settings
from tests.environments import outgoing_proxy
from tests.environments.outgoing_proxy import PASSWORD, PROVIDER
from tests.outgoing_proxy import ConnectProxy, listening, over_tls
from tests.patience import PATIENCE_S

REFUSED = "the proxy (RUNTALLY_HTTPS_PROXY) does not accept its user name and password (407)"


@every_agent
async def test_a_run_reaches_the_provider_and_no_process_has_the_password(
    tmp_path: Path, database_url: str, agent: str
) -> None:
    hold = Hold(index=2)
    async with (
        Simulator(in_turn(Reply([Text("Hello.")], hold=hold))) as simulator,
        outgoing_proxy.opened(tmp_path, database_url, simulator.url) as variables,
        a_server(tmp_path, simulator.url, agent=agent, **variables) as (server, http),
    ):
        running = asyncio.create_task(http.post("/v1/runs/wait", json=a_request()))
        await hold.reached.wait()
        children = shown_by(server.children())
        hold.until.set()
        run = (await running).json()
        ready = (await http.get("/readyz")).text

    assert (run["ok"], "Hello." in str(run), '"provider":"ok"' in ready) == (True, True, True), (run, ready)
    assert PASSWORD not in f"{children} {ready} {run} {(tmp_path / 'log').read_text()}"
    # The agent's process calls the gateway, which it reaches directly.
    assert agent == MESSAGES or "ANTHROPIC_BASE_URL" in children
    assert "RUNTALLY_HTTPS_PROXY" not in children


@dataclass(frozen=True, slots=True)
class Office:
    """A server in this process, and the proxy that it needs."""

    settings: Settings
    proxy: ConnectProxy
    http: httpx.AsyncClient

    async def run(self) -> str | None:
        """The error of a run."""
        run = (await self.http.post("/v1/runs/wait", json=a_request(graphId=f"{MESSAGES}:assistant"))).json()
        error: str | None = run.get("error")
        assert run["ok"] == (error is None)
        return error

    async def provider(self) -> str:
        """What `/readyz` says of it."""
        ready = (await self.http.get("/readyz")).raise_for_status()
        return str(ready.json()["provider"])

    async def becomes_ready(self) -> None:
        """It is once calls have worked for a second; before there was a proxy, a check has failed."""
        async with asyncio.timeout(PATIENCE_S):
            while await self.run() is not None or await self.provider() != "ok":
                await asyncio.sleep(0.1)


@asynccontextmanager
async def an_office(directory: Path, database_url: str) -> AsyncIterator[Office]:
    """Without its proxy, whose port is free."""
    authority = Authority(directory)
    async with (
        Simulator(lambda _: Reply([Text("Hello.")]), accepted_keys=frozenset({PROVIDER_KEY})) as simulator,
        over_tls(simulator.url, authority.certificate(PROVIDER)) as port,
    ):
        proxy = ConnectProxy({PROVIDER: port}, ("me", PASSWORD), port=free_port())
        settings = the_settings(
            *(directory, database_url, f"https://{PROVIDER}"),
            RUNTALLY_HTTPS_PROXY=proxy.url.replace("//", f"//me:{PASSWORD}@"),
            RUNTALLY_CA_FILE=authority.file,
        )
        with listen("127.0.0.1", 0) as sock:
            async with served(settings, sock), a_client(url_of(sock)) as http:
                yield Office(settings, proxy, http)


async def test_readiness_follows_the_proxy(tmp_path: Path, database_url: str) -> None:
    """The next call shows it, long before the next check."""
    with capture_logs() as logs:
        async with an_office(tmp_path, database_url) as office:
            async with listening(office.proxy):
                await office.becomes_ready()
                office.proxy.refuses = 407
                office.proxy.cut_off()
                assert (await office.run(), await office.provider()) == ("provider_unavailable", "unusable")
            assert (await office.run(), await office.provider()) == ("provider_unavailable", "unusable")
            office.proxy.refuses = None
            async with listening(office.proxy):
                await office.becomes_ready()

    outages = [line["reason"] for line in logs if line["event"] == "gateway.provider_unreachable"]
    assert REFUSED in outages
    assert PASSWORD not in str(logs)


async def test_the_doctor_goes_the_same_way(tmp_path: Path, database_url: str) -> None:
    async with an_office(tmp_path, database_url) as office, listening(office.proxy):
        well = await examine(office.settings, environ={}, file_variables=(), with_probe=True)
        office.proxy.credentials = ("me", "another")
        office.proxy.cut_off()
        badly = await examine(office.settings, environ={}, file_variables=(), with_probe=True)

    found = {check.name: check.detail for check in badly.checks if check.status == "error"}
    assert well.ok, well
    assert found["auth"] == f"ANTHROPIC_BASE_URL cannot be reached: {REFUSED}"
    assert found["probe"].endswith(f"provider_unavailable; {REFUSED}")
    assert PASSWORD not in str(badly)
