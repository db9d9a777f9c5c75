"""Opens what passes telemetry of clients' own agents on."""

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus

import anyio.to_thread

from app.platform.telemetry.clients.relay import ClientRelay, Sent, Signal
from app.platform.telemetry.config import Destination, TelemetryConfig
from app.platform.telemetry.sdk.client_exports import reader_of
from app.platform.telemetry.sdk.receiver import SUCCESS, ReportingSession

_AWAY = frozenset(
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
"""The statuses of a receiver that may take the same later (OTLP)."""


def open_clients(config: TelemetryConfig) -> Mapping[Signal, ClientRelay]:
    """By signal, what passes it on, where it has a destination."""
    keeps_contents = config.options.captures_content
    return {
        signal: ClientRelay(
            reader_of(signal, keeps_contents=keeps_contents), partial(_post, _session(signal, to, config), to)
        )
        for signal, to in config.destinations.items()
    }


def _session(signal: Signal, to: Destination, config: TelemetryConfig) -> ReportingSession:
    session = ReportingSession(f"{signal} of clients", to.endpoint, config.network)
    session.headers.update(to.headers)
    return session


async def _post(session: ReportingSession, to: Destination, body: bytes) -> Sent:
    # A stopping server does not wait for it.
    status = await anyio.to_thread.run_sync(session.send_protobuf, to.endpoint, body, abandon_on_cancel=True)
    if status is None or status in _AWAY:
        return "unreachable"
    return "forwarded" if status in SUCCESS else "refused"
