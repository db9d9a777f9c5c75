"""BatchLine: one line of a batch, as its client writes it."""

from typing import Annotated

from pydantic import Field

from app.requests.wire_models import InputModel
from app.runs.delegated.requests import DelegatedRunRequest

CustomId = Annotated[str, Field(pattern=r"^[!-~]([ -~]{0,198}[!-~])?$")]
"""Printable ASCII: it is shown in terminals and logs."""


class BatchLine(InputModel):
    """One line of a batch; `customId` is in its result again."""

    custom_id: CustomId
    request: DelegatedRunRequest
