"""What an operator sets, what is refused, and that a refusal names the variable and no secret."""

import os
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.settings import Settings, SettingsError

VARIABLES = {str(field.validation_alias) for field in Settings.model_fields.values()}
SECRET = "hunter2-hunter2-hunter2"
A_KEY = "rt_" + "k" * 16


@pytest.fixture(autouse=True)
def _nothing_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper() in VARIABLES:
            monkeypatch.delenv(name)


def load() -> Settings:
    """Settings from the environment alone."""
    return Settings.load(_env_file=None)


def test_an_empty_environment_gives_the_defaults() -> None:
    settings = load()

    assert settings.database_url is None
    assert settings.redis_url is None
    assert settings.data_dir == Path(".runtally")
    assert settings.anthropic_api_key is None
    assert settings.anthropic_base_url == "https://api.anthropic.com"
    assert settings.default_model == "claude-sonnet-4-5"
    assert settings.graphs_dir is None
    assert settings.tools == ()
    assert settings.bootstrap_key is None
    assert settings.markup == Decimal("1.0")
    assert settings.max_concurrent_runs == 8
    assert settings.max_queued_runs == 256
    assert settings.run_timeout_s == 600
    assert settings.max_body_bytes == 20 * 1024 * 1024


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")

    assert load() == Settings.model_construct()


def test_values_are_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://localhost/runtally")
    monkeypatch.setenv("RUNTALLY_DATA_DIR", "somewhere")
    monkeypatch.setenv("RUNTALLY_MARKUP", "1.25")
    monkeypatch.setenv("RUNTALLY_BOOTSTRAP_KEY", A_KEY)
    settings = load()

    assert settings.database_url == "postgresql://localhost/runtally"
    assert settings.data_dir == Path("somewhere")
    assert settings.markup == Decimal("1.25")
    assert settings.bootstrap_key is not None
    assert settings.bootstrap_key.get_secret_value() == A_KEY


@pytest.mark.parametrize(
    ("value", "modules"),
    [("acme.tools", ("acme.tools",)), (" acme.a, acme.b ,", ("acme.a", "acme.b")), (",", ())],
)
def test_tools_are_separated_by_commas(
    monkeypatch: pytest.MonkeyPatch, value: str, *, modules: tuple[str, ...]
) -> None:
    monkeypatch.setenv("RUNTALLY_TOOLS", value)

    assert load().tools == modules


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        load().markup = Decimal(0)  # type: ignore[misc]


def test_secrets_do_not_show_when_settings_are_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", SECRET)
    monkeypatch.setenv("RUNTALLY_BOOTSTRAP_KEY", A_KEY)
    shown = f"{load()} {load()!r} {load().model_dump_json()}"

    assert SECRET not in shown
    assert A_KEY not in shown


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DATABASE_URL", f"mysql://user:{SECRET}@localhost/runtally"),
        ("REDIS_URL", f"https://user:{SECRET}@localhost"),
        ("ANTHROPIC_API_KEY", f"{SECRET}\n"),
        ("ANTHROPIC_API_KEY", f"{SECRET} é"),
        ("ANTHROPIC_BASE_URL", "api.example.com"),
        ("RUNTALLY_GRAPHS_DIR", "no/such/directory"),
        ("RUNTALLY_BOOTSTRAP_KEY", SECRET),
        ("RUNTALLY_BOOTSTRAP_KEY", "rt_short"),
        ("RUNTALLY_BOOTSTRAP_KEY", f"rt_{SECRET}!"),
        ("RUNTALLY_BOOTSTRAP_KEY", f"rt_{SECRET}\n"),
        ("RUNTALLY_BOOTSTRAP_KEY", "rt_" + "k" * 201),
        ("RUNTALLY_MARKUP", "-0.1"),
        ("RUNTALLY_MARKUP", "NaN"),
        ("RUNTALLY_MARKUP", "1e99"),
        ("RUNTALLY_MARKUP", "cheap"),
        ("RUNTALLY_MAX_CONCURRENT_RUNS", "0"),
        ("RUNTALLY_MAX_QUEUED_RUNS", "-1"),
        ("RUNTALLY_RUN_TIMEOUT_S", "0"),
        ("RUNTALLY_RUN_TIMEOUT_S", "1.5"),
        ("RUNTALLY_RUN_TIMEOUT_S", "1" + "0" * 20),
        ("RUNTALLY_MAX_BODY_BYTES", "10MB"),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, variable: str, *, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingsError) as refused:
        load()

    assert f"  {variable}: " in str(refused.value)
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None


def test_every_wrong_variable_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://localhost")
    monkeypatch.setenv("RUNTALLY_MARKUP", "-1")
    with pytest.raises(SettingsError) as refused:
        load()

    assert str(refused.value).splitlines() == [
        "The settings are not usable:",
        "  DATABASE_URL: must start with postgresql:// or postgres:// or postgresql+asyncpg://",
        "  RUNTALLY_MARKUP: Input should be greater than or equal to 0",
    ]


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+asyncpg"])
def test_every_spelling_of_a_postgresql_url_is_taken(monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setenv("DATABASE_URL", f"{scheme}://localhost/runtally")

    assert load().database_url == f"{scheme}://localhost/runtally"
