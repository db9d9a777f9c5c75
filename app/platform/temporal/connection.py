"""The connection to Temporal."""

import logging
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from pathlib import Path

import certifi
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import HttpConnectProxyConfig, RPCError, TLSConfig

from app.errors import OperatorError, Unavailable
from app.platform.logs.dependency import DependencyLog
from app.platform.network import DIRECT, SYSTEM, Network

RPC_TIMEOUT = timedelta(seconds=5)


class TemporalUnavailable(Unavailable):
    """Temporal (TEMPORAL_ADDRESS) does not respond."""

    is_logged = True


class ProxyUnusable(OperatorError):
    """A proxy with an https:// URL cannot lead to Temporal: add its host to RUNTALLY_NO_PROXY."""

    def __init__(self) -> None:
        super().__init__(type(self).__doc__ or "")


@dataclass(frozen=True, slots=True)
class TemporalConfig:
    """Where Temporal is."""

    address: str
    """host:port"""
    namespace: str
    tls: bool = False
    api_key: str | None = field(default=None, repr=False)
    network: Network = DIRECT


class TemporalConnection:
    """A connection of this process, and whether Temporal responds: logged when that changes."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self._log = DependencyLog(unavailable="dispatch.paused", available="dispatch.resumed")

    @property
    def is_away(self) -> bool:
        """Whether the last call has failed."""
        return bool(self._log)

    async def ping(self) -> None:
        """Raise `TemporalUnavailable` unless the namespace can be used now."""
        request = DescribeNamespaceRequest(namespace=self.client.namespace)
        try:
            await self.client.workflow_service.describe_namespace(request, timeout=RPC_TIMEOUT)
        except RPCError as error:
            raise self.unavailable(error) from error

    async def is_available(self) -> bool:
        """Whether it responds; looked up only if the last call has failed."""
        return not self.is_away or await self.check()

    async def check(self) -> bool:
        """Whether it responds now. Other calls take longer to find that out: they are repeated."""
        try:
            await self.ping()
        except TemporalUnavailable as error:
            self._log.failed(error.detail)
            return False
        self._log.worked()
        return True

    def unavailable(self, error: RPCError) -> TemporalUnavailable:
        """The error for a call that failed: with its status, without the text, which may contain anything."""
        return TemporalUnavailable(
            f"Temporal (TEMPORAL_ADDRESS) cannot be used: {error.status.name}, "
            f"namespace {self.client.namespace}"
        )

    def failed(self, error: RPCError) -> TemporalUnavailable:
        """The same; until it responds again, background work leaves it alone."""
        failure = self.unavailable(error)
        self._log.failed(failure.detail)
        return failure


async def connect(config: TemporalConfig, *, identity: str) -> TemporalConnection:
    """Connect and look the namespace up; raises `TemporalUnavailable`. `identity` is shown by Temporal."""
    try:
        client = await Client.connect(
            config.address,
            namespace=config.namespace,
            api_key=config.api_key,
            tls=config.tls and _tls_of(config.network),
            http_connect_proxy_config=_proxy_of(config),
            identity=identity,
            connect_timeout=RPC_TIMEOUT,
            runtime=_runtime(),
        )
    except RuntimeError as error:
        # All that the library raises if it gets no connection.
        raise TemporalUnavailable from error
    connection = TemporalConnection(client)
    await connection.ping()
    return connection


def _proxy_of(config: TemporalConfig) -> HttpConnectProxyConfig | None:
    scheme = "https" if config.tls else "http"
    proxy = config.network.proxy_for(scheme, config.address.rpartition(":")[0])
    if proxy is None:
        return None
    if proxy.scheme == "https":
        raise ProxyUnusable
    return HttpConnectProxyConfig(proxy.address, proxy.credentials)


def _tls_of(network: Network) -> TLSConfig | bool:
    """The library's own authorities are the operating system's; those that it is given replace them."""
    if network.authorities is None or network.authorities == SYSTEM:
        return True
    usual = Path(certifi.where())
    return TLSConfig(server_root_ca_cert=usual.read_bytes() + network.authorities.read_bytes())


@cache
def _runtime() -> Runtime:
    """One for the process: it has threads. Its log lines go where all others go."""
    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    filter_ = TelemetryFilter(core_level="WARN", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter_, forwarding)))
