"""JSON of API keys."""

from typing import Annotated, Self
from uuid import UUID

from pydantic import Field

from app.auth.giving import MAX_PATTERNS, PATTERN
from app.auth.records import KeyOptions, KeyRecord
from app.http.response_model import Moment, ResponseModel
from app.requests.attribution import KeyLabels
from app.requests.principal import Scope
from app.requests.wire_models import InputModel, UtcMoment

_DAY_S = 86_400
_MAX_COUNT = 1_000_000
_MAX_TOKENS = 1_000_000_000

_Patterns = Annotated[
    list[Annotated[str, Field(pattern=PATTERN)]], Field(min_length=1, max_length=MAX_PATTERNS)
]
_Count = Annotated[int, Field(strict=True, ge=1, le=_MAX_COUNT)]


class ApiKeyResponse(ResponseModel):
    """An API key without its secret; `prefix` is its beginning."""

    id: UUID
    name: str | None
    prefix: str
    created_at: Moment
    last_used_at: Moment | None
    revoked_at: Moment | None


class KeyLimits(ResponseModel):
    """The limits of a key; null: none besides those of its account and the server."""

    requests_per_minute: int | None
    concurrent_runs: int | None
    tokens_per_minute: int | None


class ShownLabels(ResponseModel):
    """What the key's runs are labelled with; `fixed`: whether requests may name no other value."""

    end_user: str | None
    tags: dict[str, str] | None
    fixed: bool


class ManagedKey(ApiKeyResponse):
    """An API key with its rights; null: not restricted."""

    account: str
    scopes: tuple[Scope, ...]
    expires_at: Moment | None
    graphs: tuple[str, ...] | None
    models: tuple[str, ...] | None
    limits: KeyLimits
    labels: ShownLabels | None

    @classmethod
    def of(cls, record: KeyRecord, **more: str) -> Self:
        limits = KeyLimits.built_from(record.terms)
        return cls.built_from(record, record.terms, limits=limits, **more)


class CreatedKey(ManagedKey):
    """A new API key; `key` cannot be retrieved later."""

    key: str


class RevokedKey(ResponseModel):
    """A revoked key; `stoppedRuns` are the runs that are being stopped."""

    id: UUID
    stopped_runs: int


class NewLimits(InputModel):
    """Limits of a new key."""

    requests_per_minute: _Count | None = None
    concurrent_runs: _Count | None = None
    tokens_per_minute: Annotated[int, Field(strict=True, ge=1, le=_MAX_TOKENS)] | None = None


class KeyRequest(InputModel):
    """A new key; what is omitted is as with the caller's key."""

    name: Annotated[str, Field(max_length=200, pattern=r"^[^\x00]+$")] | None = None
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=20)]
    expires_at: UtcMoment | None = None
    graphs: _Patterns | None = None
    models: _Patterns | None = None
    limits: NewLimits | None = None
    labels: KeyLabels | None = None

    @property
    def options(self) -> KeyOptions:
        """What the key may have besides its scopes."""
        limits = self.limits or NewLimits()
        return KeyOptions(
            name=self.name,
            expires_at=self.expires_at,
            graphs=self.graphs,
            models=self.models,
            requests_per_minute=limits.requests_per_minute,
            concurrent_runs=limits.concurrent_runs,
            tokens_per_minute=limits.tokens_per_minute,
            labels=self.labels,
        )


class Rotation(InputModel):
    """How long the old key stays valid."""

    overlap_s: Annotated[int, Field(strict=True, ge=0, le=30 * _DAY_S)] = 3600
