from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest

from app.platform.settings import SECRETS, Settings, SettingsError, withdraw_secrets


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
        ("DATABASE_POOL_SIZE", "1"),
        ("DATABASE_POOL_SIZE", "101"),
        ("REDIS_URL", "localhost"),
        ("TEMPORAL_ADDRESS", "https://temporal.example.org"),
        ("TEMPORAL_ADDRESS", "temporal.example.org"),
        # Without DATABASE_URL.
        ("TEMPORAL_ADDRESS", "temporal.example.org:7233"),
        ("TEMPORAL_API_KEY", "hunter2\n"),
        ("ANTHROPIC_BASE_URL", "api.anthropic.com"),
        ("ANTHROPIC_BASE_URL", "https://"),
        ("ANTHROPIC_BASE_URL", "https://["),
        ("ANTHROPIC_BASE_URL", "https://me:hunter2@example.org:port"),
        ("ANTHROPIC_BASE_URL", "https://me:hunter2@example.org\n"),
        ("ANTHROPIC_BASE_URL", "https://me:hunter2@example .org"),
        ("ANTHROPIC_API_KEY", "hunter2\udcff"),
        ("RUNTALLY_DATA_DIR", "\udcff"),
        ("RUNTALLY_PRICES_FILE", "a\0b"),
        ("RUNTALLY_OBJECTS", "s3://"),
        ("RUNTALLY_OBJECTS", "file:///"),
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


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_value_in_quotes_is_refused_where_they_cannot_be_meant(quote: str) -> None:
    given = {
        "RUNTALLY_DATA_DIR": "/data",
        "DATABASE_URL": "postgresql://a:hunter2@b/c",
        "RUNTALLY_MARKUP": "2",
    }
    with pytest.raises(SettingsError) as raised:
        load(**{name: f"{quote}{value}{quote}" for name, value in given.items()})

    first, *lines = str(raised.value).splitlines()
    assert first == "The settings are invalid:"
    assert [line.partition(":")[0].strip() for line in lines] == sorted(given)
    assert all("the quotes around it are part of the value" in line for line in lines)
    assert "hunter2" not in str(raised.value)


def test_keys_and_commands_may_have_quotes() -> None:
    command = "'my program' 'an argument'"
    assert (
        load(ANTHROPIC_API_KEY="'sk'", DATABASE_PASSWORD_COMMAND=command).database_password_command == command
    )


NUMBERS = [
    str(field.validation_alias)
    for field in Settings.model_fields.values()
    if {int, float, Decimal} & {field.annotation, *get_args(field.annotation)}
]


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_has_an_end(name: str) -> None:
    """A larger one than the database knows would be an error of each request."""
    with pytest.raises(SettingsError, match=f"{name}|must not be smaller"):
        load(**{name: str(2**63)})


def test_secrets_do_not_show(tmp_path: Path) -> None:
    settings = load(ANTHROPIC_API_KEY="sk-secret", RUNTALLY_DATA_DIR=tmp_path)

    assert "sk-secret" not in repr(settings)


VALUES = {
    "ANTHROPIC_ADMIN_BASE_URL": "https://me:hunter2@example.org",
    "ANTHROPIC_BASE_URL": "https://me:hunter2@example.org",
    "DATABASE_DIRECT_URL": "postgresql://me:hunter2@example.org/x",
    "DATABASE_READ_URL": "postgresql://me:hunter2@example.org/x",
    "DATABASE_URL": "postgresql://me:hunter2@example.org/x",
    "REDIS_URL": "redis://me:hunter2@example.org",
    "RUNTALLY_BOOTSTRAP_KEY": "rt_hunter2hunter2hunter2",
    "RUNTALLY_HTTPS_PROXY": "http://me:hunter2@example.org:8080",
    "RUNTALLY_JWT_ISSUERS": '[{"issuer": "https://a", "audience": "hunter2", "account": "a", '
    '"scopes": ["runs:read"]}]',
    "RUNTALLY_MCP_SECRETS": '{"TOKEN": "hunter2"}',
    "RUNTALLY_MCP_TOKEN_KEY": "hunter2" * 6,
    "RUNTALLY_OBJECTS_KEY": "hunter2" * 6,
}


def value_of(name: str) -> str:
    """One that this setting may have."""
    if name.startswith("OTEL_"):
        return "a=hunter2" if name.endswith("HEADERS") else "https://me:hunter2@example.org"
    return VALUES.get(name, "sk-hunter2")


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_every_secret_may_be_in_a_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{value_of(name)}\n")
    monkeypatch.delenv(name, raising=False)
    in_variable = load(**{name: value_of(name)})
    monkeypatch.setenv(f"{name}_FILE", str(file))

    assert load() == in_variable != load(**{f"{name}_FILE": ""})


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"\n", "is empty"),
        (b"hunter2\xff", "is not UTF-8 text"),
    ],
)
def test_a_file_that_has_no_secret_is_named(tmp_path: Path, content: bytes | None, problem: str) -> None:
    file = tmp_path / "secret"
    if content is not None:
        file.write_bytes(content)

    with pytest.raises(SettingsError) as raised:
        load(ANTHROPIC_API_KEY_FILE=str(file), RUNTALLY_MARKUP="much")

    assert f"  ANTHROPIC_API_KEY_FILE: the file {file} {problem}\n  RUNTALLY_MARKUP: " in str(raised.value)
    assert "hunter2" not in str(raised.value)


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            {"ANTHROPIC_API_KEY": "sk-hunter2", "ANTHROPIC_API_KEY_FILE": "/x"},
            "ANTHROPIC_API_KEY_FILE: ANTHROPIC_API_KEY is set, too; unset one of them",
        ),
        (
            {"DATABASE_PASSWORD_FILE": "/x", "DATABASE_PASSWORD_COMMAND": "y"},
            "DATABASE_PASSWORD_COMMAND: DATABASE_PASSWORD_FILE is set, too; unset one of them",
        ),
        (
            {"DATABASE_PASSWORD_FILE": "/x", "DATABASE_URL": VALUES["DATABASE_URL"]},
            "DATABASE_PASSWORD_FILE: DATABASE_URL contains a password, too; remove one of them",
        ),
        (
            {"DATABASE_PASSWORD_COMMAND": "echo 'hunter2"},
            "DATABASE_PASSWORD_COMMAND: must be a command whose quotation marks are closed",
        ),
    ],
)
def test_a_secret_has_one_source(values: dict[str, str], problem: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load(**values)

    assert str(raised.value) == f"The settings are invalid:\n  {problem}"


def test_children_do_not_learn_where_secrets_are() -> None:
    environ = {"ANTHROPIC_API_KEY_FILE": "/x", "DATABASE_PASSWORD_COMMAND": "x", "PATH": "/bin"}

    withdraw_secrets(environ)

    assert environ == {"PATH": "/bin"}
