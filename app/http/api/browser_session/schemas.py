"""JSON of browser sessions."""

from typing import Annotated

from pydantic import Field, SecretStr

from app.http.response_model import Moment, ResponseModel
from app.platform.issuers.persons import Role
from app.requests.wire_models import InputModel


class SignIn(InputModel):
    """An API key; the session gets its scopes."""

    api_key: Annotated[SecretStr, Field(max_length=300)]


class PersonResponse(ResponseModel):
    """Who has signed in at the issuer."""

    name: str | None
    end_user: str
    """Of the runs that they start."""
    role: Role


class BrowserSessionResponse(ResponseModel):
    """The signed-in account and key, and the person if one has signed in."""

    account: str
    key_name: str | None
    key_prefix: str
    scopes: tuple[str, ...]
    expires_at: Moment
    person: PersonResponse | None


class SignInMethodsResponse(ResponseModel):
    """How one can sign in, besides with an API key."""

    oidc_host: str | None
    """The issuer of persons; null: there is none."""


class SignedOutResponse(ResponseModel):
    """Where the person is signed out at the issuer, too."""

    continue_at: str
