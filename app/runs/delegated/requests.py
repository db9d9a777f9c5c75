"""DelegatedRunRequest: the request of a run that is not started by its client."""

from pydantic import field_validator
from pydantic.json_schema import SkipJsonSchema

from app.requests.run_request import GraphRunRequest


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
