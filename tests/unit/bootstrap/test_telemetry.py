import sys
from contextlib import AsyncExitStack
from typing import Any

import pytest

from app.bootstrap.telemetry.config import telemetry_config
from app.bootstrap.telemetry.opening import open_telemetry
from app.ids import new_uuid
from app.platform.settings import Settings
from app.platform.telemetry.config import TelemetryUnavailable

COMMON = {"OTEL_EXPORTER_OTLP_ENDPOINT": "https://otlp.example.org/api/"}
HERE = "http://localhost:4318/v1"


@pytest.mark.parametrize(
    ("variables", "traces", "metrics"),
    [
        ({}, None, None),
        (COMMON, "https://otlp.example.org/api/v1/traces", "https://otlp.example.org/api/v1/metrics"),
        ({**COMMON, "OTEL_SDK_DISABLED": "true"}, None, None),
        ({**COMMON, "OTEL_METRICS_EXPORTER": "none"}, "https://otlp.example.org/api/v1/traces", None),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, f"{HERE}/traces", None),
        ({"OTEL_METRICS_EXPORTER": "otlp"}, None, f"{HERE}/metrics"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a/b"}, "http://a/b", None),
    ],
)
def test_what_is_exported_where_to(
    variables: dict[str, Any], traces: str | None, metrics: str | None
) -> None:
    config = telemetry_config(Settings.load(_env_file=None, **variables))

    wanted = {"traces": traces, "metrics": metrics}
    assert {signal: to.endpoint for signal, to in config.destinations.items() if signal != "logs"} == {
        signal: endpoint for signal, endpoint in wanted.items() if endpoint is not None
    }


def test_headers_of_a_signal_replace_the_common_ones_and_do_not_show() -> None:
    variables = {
        "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20hunter2, x=1",
        "OTEL_EXPORTER_OTLP_METRICS_HEADERS": "y=2",
    }
    config = telemetry_config(Settings.load(_env_file=None, **COMMON, **variables))

    assert config.destinations["traces"].headers == {"Authorization": "Basic hunter2", "x": "1"}
    assert config.destinations["metrics"].headers == {"y": "2"}
    assert "hunter2" not in repr(config)


async def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    # As without the extra.
    monkeypatch.delitem(sys.modules, "app.platform.telemetry.sdk.opening", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    async with AsyncExitStack() as stack:
        with pytest.raises(TelemetryUnavailable, match=r"OTEL_.*pip install .runtally.telemetry."):
            await open_telemetry(Settings.load(_env_file=None, **COMMON), new_uuid(), stack)


async def test_a_value_that_the_sdk_refuses_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    async with AsyncExitStack() as stack:
        with pytest.raises(TelemetryUnavailable, match=r"unset it: .*OTEL_BSP_MAX_QUEUE_SIZE"):
            await open_telemetry(Settings.load(_env_file=None, **COMMON), new_uuid(), stack)
