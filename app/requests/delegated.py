"""BatchLine: one line of a batch, and the request of a run that is not started by its client."""

from typing import Annotated

from pydantic import Field, field_validator
from pydantic.json_schema import SkipJsonSchema

from app.requests.runs import GraphRunRequest
from app.requests.wire_models import InputModel


class DelegatedRunRequest(GraphRunRequest):
    """The request of each run of a schedule or batch: without `runId` and `startAfter`."""

    run_id: SkipJsonSchema[None] = None
    start_after: SkipJsonSchema[None] = None

    @field_validator("run_id", "start_after", mode="before")
    @classmethod
    def _is_omitted(cls, value: object) -> object:
        if value is not None:
            raise ValueError("must be omitted: it is decided for each run")
        return value


CustomId = Annotated[str, Field(pattern=r"^[!-~]([ -~]{0,198}[!-~])?$")]
"""Printable ASCII: it is shown in terminals and logs."""


class BatchLine(InputModel):
    """One line of a batch; `customId` is in its result again."""

    custom_id: CustomId
    request: DelegatedRunRequest
