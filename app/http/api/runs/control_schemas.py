"""The JSON of controlling a run: what is asked, and what comes of it."""

from typing import Annotated, Any, Literal

from pydantic import Field

from app.http.schemas import ResponseModel
from app.requests import Content, InputModel, PermissionMode, Priority


class MessageToRun(InputModel):
    """Something to say to a running agent."""

    content: Content
    priority: Priority = "next"


class SentToRun(ResponseModel):
    """A message on its way; `position` is that of its event `user_message`, null until it has one."""

    run_id: str
    message_id: str
    position: int | None


class PermissionDecision(InputModel):
    """A person's answer to a `permission_request`.

    `args` replace what the model wanted to call the tool with; `message` is for the model.
    """

    decision: Literal["allow", "deny"]
    args: dict[str, Any] | None = None
    message: Annotated[str, Field(min_length=1, max_length=4_000)] | None = None


class DecidedPermission(ResponseModel):
    """A request that is decided."""

    run_id: str
    request_id: str
    decision: Literal["allow", "deny"]


class RunChange(InputModel):
    """What can be changed of a run under way."""

    permission_mode: PermissionMode


class ChangedRun(ResponseModel):
    """What was changed."""

    run_id: str
    permission_mode: PermissionMode
