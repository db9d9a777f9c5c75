"""DatabaseSettings: the settings of connections to the database."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationInfo, field_validator
from pydantic_settings import BaseSettings

from app.platform.secret_files import split_command
from app.platform.setting_groups.urls import starts_with

POOL_SIZE = 8
"""More connections make one process slower, not faster."""

_FEWEST = 2
"""A transaction may wait for what another one of the same process does."""

_DATABASE_SCHEMES = ("postgresql://", "postgres://", "postgresql+asyncpg://")
_WITH_PASSWORD = re.compile(r"[^/]+//[^/@:]*:[^/]+@")


class DatabaseSettings(BaseSettings):
    """Settings of the database; part of `Settings`."""

    database_url: Annotated[str, starts_with(*_DATABASE_SCHEMES)] | None = Field(
        None, validation_alias="DATABASE_URL"
    )
    database_direct_url: Annotated[str, starts_with(*_DATABASE_SCHEMES)] | None = Field(
        None, validation_alias="DATABASE_DIRECT_URL"
    )
    database_read_url: Annotated[str, starts_with(*_DATABASE_SCHEMES)] | None = Field(
        None, validation_alias="DATABASE_READ_URL"
    )
    database_pool_size: int = Field(POOL_SIZE, ge=_FEWEST, le=100, validation_alias="DATABASE_POOL_SIZE")
    database_password_file: Path | None = Field(None, validation_alias="DATABASE_PASSWORD_FILE")
    database_password_command: str | None = Field(None, validation_alias="DATABASE_PASSWORD_COMMAND")

    @field_validator("database_password_file", "database_password_command")
    @classmethod
    def _is_the_only_password(cls, value: Path | str | None, info: ValidationInfo) -> Path | str | None:
        if value is None:
            return None
        if info.data.get("database_password_file") is not None:
            raise ValueError("DATABASE_PASSWORD_FILE is set, too; unset one of them")
        for name in ("database_url", "database_direct_url", "database_read_url"):
            if _WITH_PASSWORD.match(info.data.get(name) or ""):
                raise ValueError(f"{name.upper()} contains a password, too; remove one of them")
        if isinstance(value, str):
            split_command(value)
        return value
