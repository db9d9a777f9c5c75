from decimal import Decimal
from pathlib import Path

import pytest

from app.platform.settings import Settings, SettingsError


def load(**values: object) -> Settings:
    return Settings.load(_env_file=None, **values)


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DATABASE_URL", "RUNTALLY_MARKUP", "RUNTALLY_TOOLS"):
        monkeypatch.setenv(name, "")

    settings = load()

    assert (settings.database_url, settings.markup, settings.tools) == (None, Decimal("1.0"), ())


def test_tools_are_separated_by_commas() -> None:
    assert load(RUNTALLY_TOOLS="a.b, c,").tools == ("a.b", "c")


def test_origins_are_taken_as_browsers_send_them() -> None:
    origins = ("https://chat.example.org", "http://localhost:3000", "http://[::1]:8080", "https://a.b:8443")

    assert load(RUNTALLY_CORS_ORIGINS=", ".join(origins)).cors_origins == origins


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DATABASE_URL", "mysql://x"),
        ("REDIS_URL", "localhost"),
        ("TEMPORAL_ADDRESS", "https://temporal.example.org"),
        ("TEMPORAL_ADDRESS", "temporal.example.org"),
        # Without DATABASE_URL.
        ("TEMPORAL_ADDRESS", "temporal.example.org:7233"),
        ("TEMPORAL_API_KEY", "hunter2\n"),
        ("ANTHROPIC_BASE_URL", "api.anthropic.com"),
        ("RUNTALLY_BOOTSTRAP_KEY", "hunter2hunter2hunter2"),
        ("RUNTALLY_MARKUP", "-1"),
        ("RUNTALLY_MARKUP", "much"),
        ("RUNTALLY_MAX_CONCURRENT_RUNS", "0"),
        ("RUNTALLY_RUN_TIMEOUT_S", "soon"),
        ("RUNTALLY_GRAPHS_DIR", "/nonexistent/graphs"),
        ("RUNTALLY_CORS_ORIGINS", "*"),
        ("RUNTALLY_PATH_PREFIX", "runtally/"),
        ("RUNTALLY_CORS_ORIGINS", "https://chat.example.org/"),
        ("RUNTALLY_CORS_ORIGINS", "https://Chat.example.org"),
        ("RUNTALLY_CORS_ORIGINS", "https://chat.example.org:443"),
        ("RUNTALLY_CORS_ORIGINS", "http://localhost:3000, null"),
        ("RUNTALLY_CORS_ORIGINS", "https://*.example.org"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc"),
        ("OTEL_METRICS_EXPORTER", "prometheus"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "hunter2"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=hunter2\nb=c"),
        ("OTEL_RESOURCE_ATTRIBUTES", "a"),
        ("RUNTALLY_TELEMETRY_BACKENDS", "langfuse, datadog"),
    ],
)
def test_a_wrong_value_is_named_and_not_repeated(variable: str, value: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(**{variable: value})

    assert variable in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_secrets_do_not_show(tmp_path: Path) -> None:
    settings = load(ANTHROPIC_API_KEY="sk-secret", RUNTALLY_DATA_DIR=tmp_path)

    assert "sk-secret" not in repr(settings)
