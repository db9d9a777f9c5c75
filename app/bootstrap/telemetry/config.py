"""What is exported, and where to, from the settings."""

from typing import get_args
from urllib.parse import unquote

from app.platform.settings import Settings
from app.platform.telemetry.clients.relay import Signal
from app.platform.telemetry.config import Destination, TelemetryConfig
from app.platform.telemetry.records import SpanOptions

_DEFAULT_ENDPOINT = "http://localhost:4318"


def telemetry_config(settings: Settings) -> TelemetryConfig:
    """What is exported and where to; nothing is unless a variable switches it on."""
    if settings.otel_sdk_disabled:
        return TelemetryConfig()
    found = ((signal, _destination(settings, signal)) for signal in get_args(Signal))
    return TelemetryConfig(
        {signal: each for signal, each in found if each is not None},
        service_name=settings.otel_service_name,
        resource_attributes=_pairs(settings.otel_resource_attributes or ""),
        options=SpanOptions(
            frozenset(settings.telemetry_backends), captures_content=settings.otel_capture_content
        ),
        network=settings.network,
    )


def _destination(settings: Settings, signal: Signal) -> Destination | None:
    exporter, own, headers = (
        getattr(settings, f"otel_{signal}_{name}") for name in ("exporter", "endpoint", "headers")
    )
    common, headers = settings.otel_endpoint, headers or settings.otel_headers
    if exporter == "none" or (exporter is None and common is None and own is None):
        return None
    endpoint = own or f"{(common or _DEFAULT_ENDPOINT).rstrip('/')}/v1/{signal}"
    return Destination(endpoint, {} if headers is None else _pairs(headers.get_secret_value()))


def _pairs(text: str) -> dict[str, str]:
    """The pairs of `name=value,name=value`; both may be percent-encoded."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair.strip())
    return {unquote(name.strip()): unquote(value.strip()) for name, _, value in pairs}
