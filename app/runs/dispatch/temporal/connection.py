"""The connection to Temporal."""

import logging
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import TypeAlias

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.runtime import LogForwardingConfig, LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter
from temporalio.service import RPCError

from app.errors import Unavailable

TemporalClient: TypeAlias = Client

RPC_TIMEOUT = timedelta(seconds=5)


class TemporalUnavailable(Unavailable):
    """Temporal (TEMPORAL_ADDRESS) does not respond."""


@dataclass(frozen=True, slots=True)
class TemporalConfig:
    """Where Temporal is."""

    address: str
    """host:port"""
    namespace: str
    tls: bool = False
    api_key: str | None = field(default=None, repr=False)


async def connect(config: TemporalConfig, *, identity: str) -> TemporalClient:
    """Connect and look the namespace up; raises `TemporalUnavailable`. `identity` is shown by Temporal."""
    try:
        client = await Client.connect(
            config.address,
            namespace=config.namespace,
            api_key=config.api_key,
            tls=config.tls,
            identity=identity,
            connect_timeout=RPC_TIMEOUT,
            runtime=_runtime(),
        )
        await ping(client)
    except RuntimeError as error:
        # All that the library raises if it gets no connection.
        raise TemporalUnavailable from error
    return client


async def ping(client: Client) -> None:
    """Raise `TemporalUnavailable` unless the namespace can be used now."""
    request = DescribeNamespaceRequest(namespace=client.namespace)
    try:
        await client.workflow_service.describe_namespace(request, timeout=RPC_TIMEOUT)
    except RPCError as error:
        raise unavailable(client, error) from error


def unavailable(client: Client, error: RPCError) -> TemporalUnavailable:
    """The error for a call that failed: with its status, without the text, which may contain anything."""
    return TemporalUnavailable(
        f"Temporal (TEMPORAL_ADDRESS) cannot be used: {error.status.name}, namespace {client.namespace}"
    )


@cache
def _runtime() -> Runtime:
    """One for the process: it has threads. Its log lines go where all others go."""
    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    filter_ = TelemetryFilter(core_level="WARN", other_level="ERROR")
    return Runtime(telemetry=TelemetryConfig(logging=LoggingConfig(filter_, forwarding)))
