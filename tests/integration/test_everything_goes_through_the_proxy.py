"""All that calls other machines, besides the gateway and webhooks, by names that only a proxy knows."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from app.auth.oidc.attempt import Attempt
from app.auth.oidc.code_exchange import CodeExchange
from app.auth.tokens.answers import Unusable
from app.auth.tokens.issuer_keys import IssuerKeys, IssuerUnavailable
from app.billing.reconciliation.provider.reports import ProviderReports, ReportsUnavailable
from app.platform.issuers.tokens import TokenIssuer
from app.platform.json_schema.checker import SchemaChecker
from app.platform.network import Network, NoProxy, Proxy
from app.platform.server.loopback import serve_on_loopback
from app.platform.settings import Settings
from app.platform.telemetry.config import Destination, TelemetryConfig
from app.platform.telemetry.sdk.opening import open_sdk
from app.platform.temporal import connection
from app.simulator.script import in_turn
from app.tools.mcp.connection import McpServerUnavailable
from app.tools.mcp.servers import McpConnector
from tests.authority import Authority
from tests.contracts.temporal import a_temporal_server
from tests.integration.test_tool_servers_that_are_lost import Calls
from tests.integration.test_tool_servers_with_oauth import SECRET, Protected, connected
from tests.oidc_provider import a_provider
from tests.otlp import an_otlp_receiver
from tests.outgoing_proxy import ConnectProxy, listening, over_tls
from tests.provider.simulator import ReportingSimulator
from tests.token_issuers import an_issuer

HOST = "inside.test"
URL = f"https://{HOST}"
CREDENTIALS = ("me", "p@ss/word")


@asynccontextmanager
async def behind_the_proxy(directory: Path, url: str) -> AsyncIterator[tuple[ConnectProxy, Network]]:
    """The server at `url` is `URL` for who uses this network."""
    authority = Authority(directory)
    async with (
        over_tls(url, authority.certificate(HOST)) as port,
        listening(ConnectProxy({HOST: port}, CREDENTIALS)) as proxy,
    ):
        yield (
            proxy,
            Network(Proxy("http", f"127.0.0.1:{proxy.port}", CREDENTIALS), authorities=authority.file),
        )


async def test_tool_servers_and_their_authorization_servers(tmp_path: Path, schemas: SchemaChecker) -> None:
    server = Protected()
    async with serve_on_loopback(server) as url, behind_the_proxy(tmp_path, url) as (proxy, network):
        server.url = URL
        connector = McpConnector({"CLIENT": SecretStr(SECRET)}, schemas, network=network)
        async with connected(connector, server) as connections:
            result = await Calls(connections.tools).call("library__search")
        proxy.refuses = 407
        proxy.cut_off()
        with capture_logs() as logs, pytest.raises(McpServerUnavailable):
            async with connected(McpConnector(connector.secrets, schemas, network=network), server):
                pass

    assert result.markdown == "found"
    assert set(proxy.requested) == {f"{HOST}:443"}
    assert "does not accept its user name and password (407)" in str(logs)


async def test_reports_of_the_provider(tmp_path: Path) -> None:
    async with (
        ReportingSimulator(in_turn()) as simulator,
        behind_the_proxy(tmp_path, simulator.url) as (proxy, network),
    ):
        options: dict[str, Any] = {"base_url": URL, "admin_key": simulator.reports.admin_key, "tries": 1}
        async with ProviderReports(**options, network=network) as reports:
            await reports.check()
        untrusting = replace(network, authorities=None)
        async with ProviderReports(**options, network=untrusting) as reports:
            with pytest.raises(ReportsUnavailable, match="RUNTALLY_CA_FILE"):
                await reports.check()

    assert proxy.requested == [f"{HOST}:443"] * 2


async def test_keys_of_issuers_of_tokens(tmp_path: Path) -> None:
    async with an_issuer() as server, behind_the_proxy(tmp_path, server.url) as (proxy, network):
        server.url = URL
        issuer = TokenIssuer.model_validate(server.setting())
        async with IssuerKeys(network) as keys:
            found = await keys.find(issuer, "first")
        async with IssuerKeys(replace(network, authorities=None)) as keys:
            with capture_logs() as logs, pytest.raises(IssuerUnavailable):
                await keys.find(issuer, "first")

    assert found == server.keys[0].jwk
    assert proxy.requested == [f"{HOST}:443"] * 2
    assert "RUNTALLY_CA_FILE" in str(logs)


async def test_codes_of_persons(tmp_path: Path) -> None:
    async with a_provider() as server, behind_the_proxy(tmp_path, server.url) as (proxy, network):
        server.url = URL
        server.configuration["token_endpoint"] = f"{URL}/token"
        provider = Settings.load(_env_file=None, **server.settings()).oidc
        assert provider is not None
        async with CodeExchange(network) as exchange:
            with pytest.raises(Unusable, match="400"):
                await exchange.redeem(provider, server.configuration, "unknown", Attempt.new("/"))

    assert proxy.requested == [f"{HOST}:443"]


async def test_telemetry(tmp_path: Path) -> None:
    async with an_otlp_receiver() as otlp, behind_the_proxy(tmp_path, otlp.url) as (proxy, network):
        metrics = Destination(f"{URL}/v1/metrics")
        async with open_sdk(
            TelemetryConfig({"metrics": metrics}, network=network), instance_id="p1"
        ) as telemetry:
            assert telemetry.metrics is not None
            telemetry.metrics.record_tool(1, tool="t", error_type=None)
        for network_without in (replace(network, authorities=None), replace(network, proxy=None)):
            with capture_logs() as logs:
                config = TelemetryConfig({"metrics": metrics}, network=network_without)
                async with open_sdk(config, instance_id="p1") as telemetry:
                    assert telemetry.metrics is not None
                    telemetry.metrics.record_tool(1, tool="t", error_type=None)
            assert "telemetry.export_failed" in [line["event"] for line in logs]
            assert CREDENTIALS[1] not in str(logs)

    assert otlp.requests == 1
    assert set(proxy.requested) == {f"{HOST}:443"}


async def test_temporal(tmp_path: Path) -> None:
    with a_temporal_server() as server:
        await server.connect()
        async with behind_the_proxy(tmp_path, f"http://{server.address}") as (proxy, network):
            config = connection.TemporalConfig(f"{HOST}:443", "default", tls=True, network=network)
            await (await connection.connect(config, identity="test")).ping()
            with pytest.raises(connection.ProxyUnusable, match="RUNTALLY_NO_PROXY"):
                await connection.connect(
                    replace(config, network=Network(Proxy("https", "a:1"))), identity="test"
                )
            direct = replace(network, no_proxy=NoProxy.read((HOST,)))
            with pytest.raises(connection.TemporalUnavailable):
                await connection.connect(replace(config, network=direct), identity="test")

    assert set(proxy.requested) == {f"{HOST}:443"}
