"""JSON of browser sessions."""

from typing import Annotated

from pydantic import Field, SecretStr

from app.http.response_model import Moment, ResponseModel
from app.requests.wire_models import InputModel


class SignIn(InputModel):
    """An API key; the session gets its scopes."""

    api_key: Annotated[SecretStr, Field(max_length=300)]


class BrowserSessionResponse(ResponseModel):
    """The signed-in account and key."""

    account: str
    key_name: str | None
    key_prefix: str
    scopes: tuple[str, ...]
    expires_at: Moment
