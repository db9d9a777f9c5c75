"""JSON of API keys."""

from uuid import UUID

from app.http.response_model import Moment, ResponseModel


class ApiKeyResponse(ResponseModel):
    """An API key without its secret; `prefix` is its beginning."""

    id: UUID
    name: str | None
    prefix: str
    created_at: Moment
    last_used_at: Moment | None
    revoked_at: Moment | None


class RevokedKey(ResponseModel):
    """A revoked key; `stoppedRuns` are the runs that are being stopped."""

    id: UUID
    stopped_runs: int
