"""JSON of logins."""

from typing import Literal

from app.http.response_model import Moment, ResponseModel
from app.requests.wire_models import InputModel


class LoginResponse(ResponseModel):
    """A login that waits: what the device calls itself, and from where it was begun."""

    user_code: str
    client: str
    address: str | None
    created_at: Moment
    expires_at: Moment


class LoginDecision(InputModel):
    """What a person decides about a login."""

    decision: Literal["allow", "deny"]
