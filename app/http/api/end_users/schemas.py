"""JSON of erasures."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from app.http.response_model import Moment, ResponseModel
from app.runs.erasure.records import Erasure


class StartedErasure(ResponseModel):
    """Where to read how far it has come."""

    job_id: UUID


class ErasureResponse(ResponseModel):
    """How far the erasure of an end user has come."""

    job_id: UUID
    status: Literal["running", "completed"]
    conversations: Annotated[int, Field(description="Erased so far, with their forks.")]
    runs: Annotated[int, Field(description="Erased so far, besides other runs of these conversations.")]
    receipts: Annotated[int, Field(description="So many have a hash instead of the end user.")]
    created_at: Moment
    ended_at: Moment | None

    @classmethod
    def of(cls, erasure: Erasure) -> "ErasureResponse":
        status = "running" if erasure.ended_at is None else "completed"
        return cls.built_from(erasure, job_id=erasure.id, status=status)
