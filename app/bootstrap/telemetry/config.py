"""What is exported, and where to, from the settings."""

from urllib.parse import unquote

from pydantic import SecretStr

from app.platform.settings import Settings
from app.platform.telemetry.config import Destination, TelemetryConfig
from app.platform.telemetry.records import SpanOptions

_DEFAULT_ENDPOINT = "http://localhost:4318"


def telemetry_config(settings: Settings) -> TelemetryConfig:
    """What is exported and where to; nothing is unless a variable switches it on."""
    if settings.otel_sdk_disabled:
        return TelemetryConfig()
    common = settings.otel_endpoint
    return TelemetryConfig(
        traces=_destination(
            "traces",
            settings.otel_traces_exporter,
            common,
            own=settings.otel_traces_endpoint,
            headers=settings.otel_traces_headers or settings.otel_headers,
        ),
        metrics=_destination(
            "metrics",
            settings.otel_metrics_exporter,
            common,
            own=settings.otel_metrics_endpoint,
            headers=settings.otel_metrics_headers or settings.otel_headers,
        ),
        logs=_destination(
            "logs",
            settings.otel_logs_exporter,
            common,
            own=settings.otel_logs_endpoint,
            headers=settings.otel_logs_headers or settings.otel_headers,
        ),
        service_name=settings.otel_service_name,
        resource_attributes=_pairs(settings.otel_resource_attributes or ""),
        options=SpanOptions(
            frozenset(settings.telemetry_backends), captures_content=settings.otel_capture_content
        ),
        network=settings.network,
    )


def _destination(
    signal: str, exporter: str | None, common: str | None, *, own: str | None, headers: SecretStr | None
) -> Destination | None:
    if exporter == "none" or (exporter is None and common is None and own is None):
        return None
    endpoint = own or f"{(common or _DEFAULT_ENDPOINT).rstrip('/')}/v1/{signal}"
    return Destination(endpoint, {} if headers is None else _pairs(headers.get_secret_value()))


def _pairs(text: str) -> dict[str, str]:
    """The pairs of `name=value,name=value`; both may be percent-encoded."""
    pairs = (pair.partition("=") for pair in text.split(",") if pair.strip())
    return {unquote(name.strip()): unquote(value.strip()) for name, _, value in pairs}
