"""What Claude Code reads when it signs in."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field


class AuthorizationServer(BaseModel):
    """Where it signs in (RFC 8414)."""

    issuer: str
    device_authorization_endpoint: str
    token_endpoint: str
    revocation_endpoint: str
    grant_types_supported: list[str]
    response_types_supported: list[str] = []
    token_endpoint_auth_methods_supported: list[str] = ["none"]


class DeviceAuthorization(BaseModel):
    """The codes of a login (RFC 8628, 3.2)."""

    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: int
    interval: int


class TokenAnswer(BaseModel):
    """The tokens of a login."""

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105
    expires_in: int
    refresh_token: str
    email: Annotated[str, Field(description="Whom the person at the device confirms: end user and account.")]
