"""Settings: every environment variable, typed and frozen."""

import os
import re
from collections.abc import Mapping, MutableMapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    AliasGenerator,
    Field,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_settings import NoDecode, SettingsConfigDict

from app.errors import OperatorError
from app.platform.issuers.persons import OidcSettings
from app.platform.issuers.tokens import TokenIssuer, check_issuers
from app.platform.secret_files import read_secret_files
from app.platform.serialization.env_file import ENCODING, EnvFileInvalid, read_env_file
from app.platform.serialization.mistakes import problem_of
from app.platform.serialization.setting_forms import Listed, in_json
from app.platform.setting_groups.database import DatabaseSettings
from app.platform.setting_groups.network import NetworkSettings
from app.platform.setting_groups.origins import OriginSettings
from app.platform.setting_groups.telemetry import TelemetrySettings
from app.platform.setting_groups.urls import HttpUrl, starts_with

ENV_FILE = ".env"
_IN_FILES = {
    "RUNTALLY_JWT_ISSUERS",
    *("DATABASE_URL", "DATABASE_DIRECT_URL", "DATABASE_READ_URL", "REDIS_URL"),
    *("ANTHROPIC_BASE_URL", "ANTHROPIC_ADMIN_BASE_URL"),
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    *(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT" for signal in ("TRACES", "METRICS", "LOGS")),
}
_REDIS_SCHEMES = ("redis://", "rediss://", "redis+sentinel://", "rediss+sentinel://", "unix://")
_OBJECTS = re.compile(r"((s3|gs|az)://[^/\s]|file:///[^/\s]).*")
_MOST = 1_000_000_000
"""Numbers go to the database, whose integers end."""
_MOST_BYTES = 2**50
_MOST_MB = _MOST_BYTES // 2**20
_KEY = re.compile(r"rt_[A-Za-z0-9_-]{16,200}")
_HOST_AND_PORT = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[1-9][0-9]{0,4}")
_HEADER_VALUE = re.compile(r"[!-~]+")


class SettingsError(OperatorError):
    """A setting is missing or wrong; the text names the variable."""


class Settings(NetworkSettings, OriginSettings, DatabaseSettings, OidcSettings, TelemetrySettings):
    """The settings of an operator: `name` is RUNTALLY_NAME. An empty variable counts as unset."""

    model_config = SettingsConfigDict(
        alias_generator=AliasGenerator(validation_alias=lambda name: f"RUNTALLY_{name.upper()}"),
        env_file=ENV_FILE,
        env_file_encoding=ENCODING,
        env_ignore_empty=True,
        extra="ignore",
        frozen=True,
        validate_default=True,
    )

    redis_url: Annotated[str, starts_with(*_REDIS_SCHEMES)] | None = Field(None, validation_alias="REDIS_URL")
    temporal_address: str | None = Field(None, validation_alias="TEMPORAL_ADDRESS")
    temporal_namespace: str = Field("default", min_length=1, validation_alias="TEMPORAL_NAMESPACE")
    temporal_api_key: SecretStr | None = Field(None, validation_alias="TEMPORAL_API_KEY")
    temporal_tls: bool = Field(default=False, validation_alias="TEMPORAL_TLS")
    temporal_task_queue: str = Field("runtally", min_length=1, max_length=200)
    data_dir: Path = Path(".runtally")
    anthropic_api_key: SecretStr | None = Field(None, validation_alias="ANTHROPIC_API_KEY")
    anthropic_base_url: HttpUrl = Field("https://api.anthropic.com", validation_alias="ANTHROPIC_BASE_URL")
    anthropic_admin_api_key: SecretStr | None = Field(None, validation_alias="ANTHROPIC_ADMIN_API_KEY")
    anthropic_admin_base_url: HttpUrl = Field(
        "https://api.anthropic.com", validation_alias="ANTHROPIC_ADMIN_BASE_URL"
    )
    provider_key_ids: Listed[str] = ()
    reconcile_settle_minutes: int = Field(30, ge=5, le=10_080)
    claude_auth: Literal["api_key", "local_session"] = "api_key"
    claude_config_dir: Path | None = None
    default_model: str = "claude-sonnet-5-5"
    title_model: str | None = None
    models_file: Path | None = None
    graphs_dir: Path | None = None
    skills_dir: Path | None = None
    tools: Listed[str] = ()
    allowed_host_roots: Listed[Path] = ()
    mcp_secrets: Annotated[
        dict[str, SecretStr],
        NoDecode,
        in_json('must be a JSON object of strings, for example {"TOKEN": "..."}'),
    ] = Field(default_factory=dict)
    mcp_token_key: Annotated[SecretStr, Field(min_length=32)] | None = None
    bootstrap_key: SecretStr | None = None
    jwt_issuers: Annotated[
        tuple[TokenIssuer, ...],
        NoDecode,
        in_json("must be a JSON list of issuers (docs/SIGN_IN.md)"),
        AfterValidator(check_issuers),
    ] = ()
    log_format: Literal["auto", "console", "json"] = "auto"
    log_level: Literal["debug", "info", "warning", "error", "critical"] = "info"
    markup: Decimal = Field(Decimal("1.0"), ge=0, le=1000)
    prices_file: Path | None = None
    sealing_key_file: Path | None = None
    sealing_interval_s: int = Field(86_400, ge=1, le=31_536_000)
    max_concurrent_runs: int = Field(8, ge=1, le=_MOST)
    max_queued_runs: int = Field(256, ge=0, le=_MOST)
    max_runs_per_account: int | None = Field(None, ge=1, le=_MOST)
    max_runs_per_key: int | None = Field(None, ge=1, le=_MOST)
    max_schedules_per_account: int = Field(100, ge=0, le=100_000)
    max_waiting_messages: int = Field(64, ge=1, le=10_000)
    idle_processes: int = Field(4, ge=0, le=256)
    idle_process_minutes: float = Field(10, gt=0, le=1440)
    prompt_cache_ttl: Literal["5m", "1h"] = "5m"
    lease_s: float = Field(15, ge=1, le=300)
    drain_s: float = Field(20, ge=0, le=86_400)
    park_after_s: float = Field(30, ge=0.05, le=86_400)
    external_idle_s: float = Field(900, gt=0, le=86_400)
    run_timeout_s: int = Field(600, ge=1, le=86_400)
    schema_workers: int = Field(2, ge=1, le=32)
    schema_check_s: float = Field(0.5, ge=0.05, le=30)
    max_body_bytes: int = Field(20_971_520, ge=1024, le=_MOST_BYTES)
    max_attachments: int = Field(20, ge=0, le=100)
    max_attachment_bytes: int = Field(10_485_760, ge=1024, le=_MOST_BYTES)
    attachment_urls: bool = False
    max_run_output_mb: int = Field(256, ge=1, le=_MOST_MB)
    evidence: bool = True
    objects: str | None = None
    objects_key: Annotated[SecretStr, Field(min_length=32)] | None = None
    max_storage_mb_per_account: int = Field(10_240, ge=0, le=_MOST_MB)
    max_conversation_mb: int = Field(64, ge=1, le=_MOST_MB)
    retention_days: int = Field(0, ge=0, le=36_500)
    events_retention_days: int = Field(0, ge=0, le=36_500)
    transcripts_retention_days: int = Field(0, ge=0, le=36_500)
    max_memory_mb: int | None = Field(None, ge=128, le=_MOST_MB)
    max_bodies_bytes: int = Field(268_435_456, ge=1024, le=_MOST_BYTES)
    max_bodies_bytes_per_account: int = Field(67_108_864, ge=1024, le=_MOST_BYTES)
    max_body_bytes_per_second: int = Field(8_388_608, ge=1024, le=_MOST_BYTES)
    body_timeout_s: int = Field(120, ge=1, le=3600)
    header_timeout_s: int = Field(10, ge=1, le=600)
    write_timeout_s: int = Field(30, ge=1, le=3600)
    max_connections: int = Field(2000, ge=16, le=_MOST)
    max_connections_per_address: int = Field(256, ge=1, le=_MOST)
    max_readers_per_key: int = Field(200, ge=1, le=_MOST)
    max_readers_per_run: int = Field(50, ge=1, le=_MOST)
    max_writes_per_second: int = Field(50, ge=1, le=_MOST)
    max_failed_keys_per_minute: int = Field(60, ge=1, le=_MOST)
    metrics_port: int | None = Field(None, ge=0, le=65_535)
    webhook_allow_private: bool = False
    egress_allow_private: bool = False
    on_disconnect: Literal["continue", "cancel"] = "continue"
    disconnect_grace_s: float = Field(10.0, ge=1, le=3600)
    path_prefix: Annotated[str, Field(pattern=r"^(/[A-Za-z0-9._~-]{1,100}){1,10}$")] | None = None
    allow_http_sign_in: bool = False

    @field_validator("objects")
    @classmethod
    def _is_a_place(cls, value: str | None) -> str | None:
        if value is not None and not _OBJECTS.fullmatch(value):
            raise ValueError("must be s3://BUCKET, gs://BUCKET, az://CONTAINER or file:///DIRECTORY")
        return value

    @field_validator("temporal_address")
    @classmethod
    def _is_host_and_port(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is None:
            return None
        if not _HOST_AND_PORT.fullmatch(value):
            raise ValueError("must be a host and a port without a scheme, for example temporal.internal:7233")
        if info.data.get("database_url") is None:
            raise ValueError("needs DATABASE_URL: Temporal is for several server processes on one database")
        return value

    @field_validator("anthropic_api_key", "anthropic_admin_api_key", "temporal_api_key")
    @classmethod
    def _fits_a_header(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _HEADER_VALUE.fullmatch(value.get_secret_value()):
            raise ValueError("must be ASCII without spaces or line breaks")
        return value

    @field_validator("bootstrap_key")
    @classmethod
    def _is_a_key(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _KEY.fullmatch(value.get_secret_value()):
            raise ValueError("must be rt_ followed by 16 to 200 letters, digits, _ or -")
        return value

    @field_validator("allowed_host_roots")
    @classmethod
    def _are_directories(cls, value: tuple[Path, ...]) -> tuple[Path, ...]:
        if not all(root.is_absolute() and root.is_dir() for root in value):
            raise ValueError("must be absolute paths of directories, comma-separated")
        return value

    @field_validator("graphs_dir", "skills_dir", "claude_config_dir")
    @classmethod
    def _exists(cls, value: Path | None) -> Path | None:
        if value is not None and not value.is_dir():
            raise ValueError("is not a directory")
        return value

    @field_validator("max_bodies_bytes", "max_bodies_bytes_per_account")
    @classmethod
    def _holds_a_body(cls, value: int, info: ValidationInfo) -> int:
        if value < info.data.get("max_body_bytes", 0):
            raise ValueError("must not be smaller than RUNTALLY_MAX_BODY_BYTES")
        return value

    @field_validator("events_retention_days")
    @classmethod
    def _ends_with_the_contents(cls, value: int, info: ValidationInfo) -> int:
        if value > (info.data.get("retention_days") or value):
            message = "must not exceed RUNTALLY_RETENTION_DAYS, after which a run's events are deleted anyway"
            raise ValueError(message)
        return value

    @classmethod
    def load(cls, **values: Any) -> "Settings":
        """Read the environment, `.env` and files of secrets; raises `SettingsError` naming what is wrong."""
        try:
            variables: dict[str, str | None] = {**os.environ}
            if (file := values.get("_env_file", ENV_FILE)) is not None:
                # Of a line that it cannot read, the library only logs that it is skipped.
                variables = {**read_env_file(Path(file)), **variables}
            given = {**_in_upper_case(variables), **values}
            _require_text(given)
            _require_unquoted(given)
            found, problems = read_secret_files(SECRETS, given)
            settings = cls(**{**found, **values})
        except ValidationError as error:
            problems += [_line(detail) for detail in error.errors()]
        except EnvFileInvalid as error:
            raise SettingsError(f"The file .env {error}.") from error
        if problems:
            raise SettingsError("\n".join(["The settings are invalid:", *map("  {}".format, problems)]))
        return settings


SECRETS = frozenset(
    str(field.validation_alias)
    for field in Settings.model_fields.values()
    if "SecretStr" in str(field.annotation) or str(field.validation_alias) in _IN_FILES
)
"""The settings that may be secret: each NAME may be in the file NAME_FILE instead."""

QUOTED = "the quotes around it are part of the value (`docker --env-file` keeps them)"

_NEVER_QUOTED = {
    str(field.validation_alias)
    for field in Settings.model_fields.values()
    if "SecretStr" not in str(field.annotation)
} - {"DATABASE_PASSWORD_COMMAND"}

_SOURCES_OF_SECRETS = {
    "DATABASE_PASSWORD_COMMAND",
    "DATABASE_PASSWORD_FILE",
    *(f"{name}_FILE" for name in SECRETS),
}


def variables_of_file() -> list[str]:
    """The names of variables that `.env` sets."""
    return [name for name, value in read_env_file(Path(ENV_FILE)).items() if value]


def withdraw_secrets(environ: MutableMapping[str, str]) -> None:
    """Remove secret settings from an environment that child processes inherit."""
    for name in [name for name in environ if name.upper() in SECRETS | _SOURCES_OF_SECRETS]:
        del environ[name]


def _require_text(variables: Mapping[str, Any]) -> None:
    """Raise `SettingsError` for what no file name, header or row can have."""
    names = {*_SOURCES_OF_SECRETS, *(str(field.validation_alias) for field in Settings.model_fields.values())}
    for name in sorted(names & variables.keys()):
        try:
            is_text = b"\0" not in str(variables[name]).encode()
        except UnicodeEncodeError:
            is_text = False
        if not is_text:
            raise SettingsError(f"The settings are invalid:\n  {name}: must be UTF-8 text without NUL")


def is_quoted(value: object) -> bool:
    return isinstance(value, str) and len(value) > 1 and value[0] == value[-1] and value[0] in "'\""


def _require_unquoted(variables: Mapping[str, Any]) -> None:
    quoted = [name for name in sorted(_NEVER_QUOTED & variables.keys()) if is_quoted(variables[name])]
    if quoted:
        lines = [f"  {name}: {QUOTED}; remove them" for name in quoted]
        raise SettingsError("\n".join(["The settings are invalid:", *lines]))


def _in_upper_case(variables: Mapping[str, str | None]) -> dict[str, str | None]:
    return {name.upper(): value for name, value in variables.items()}


def _line(detail: Any) -> str:
    # Without the value: it may be a secret.
    name, *rest = detail["loc"]
    # A default that is wrong is reported under the name of its field.
    variable = Settings.model_fields[name].validation_alias if name in Settings.model_fields else name
    return f"{'.'.join(map(str, [variable, *rest]))}: {problem_of(detail)}"
