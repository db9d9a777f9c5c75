"""The requests for one answer to one prompt."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from app.requests.attribution import Attributed
from app.requests.blank import require_visible
from app.requests.run_request import NewRunId, RunLimits


class GenerateRequest(Attributed):
    """The request for one answer to one prompt: a run of one turn without tools."""

    run_id: NewRunId | None = None
    prompt: Annotated[str, Field(min_length=1), AfterValidator(require_visible)]
    system: Annotated[str, Field(min_length=1)] | None = None
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    role: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """A role that resolves to a model; instead of `model`."""
    limits: RunLimits = RunLimits()

    @field_validator("role")
    @classmethod
    def _role_or_model(cls, role: str | None, info: ValidationInfo) -> str | None:
        if role is not None and info.data.get("model") is not None:
            raise ValueError("a role selects the model: give either role or model")
        return role


class GenerateTextRequest(GenerateRequest):
    """The request for a generated text."""

    stream: Annotated[bool, Field(strict=True)] = False
    """Whether to stream the run's events instead of returning its answer."""


class GenerateObjectRequest(GenerateRequest):
    """The request for a generated object."""

    schema_: Annotated[dict[str, Any], Field(alias="schema")]
