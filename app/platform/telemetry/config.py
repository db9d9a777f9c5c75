"""TelemetryConfig: what is exported, and where to, by the standard variables of OpenTelemetry."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.errors import OperatorError
from app.platform.network import DIRECT, Network
from app.platform.telemetry.clients.relay import Signal
from app.platform.telemetry.records import SpanOptions

SERVICE_NAME = "runtally"


class TelemetryUnavailable(OperatorError):
    """Telemetry is switched on and cannot be exported; the text names the variable."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where one signal is exported to."""

    endpoint: str
    """With the path of the signal."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class TelemetryConfig:
    """What is exported."""

    destinations: Mapping[Signal, Destination] = field(default_factory=dict)
    """Of the signals that are exported; logs of clients' own agents only: this server sends none."""
    service_name: str | None = None
    resource_attributes: Mapping[str, str] = field(default_factory=dict)
    options: SpanOptions = field(default_factory=SpanOptions)
    network: Network = DIRECT
