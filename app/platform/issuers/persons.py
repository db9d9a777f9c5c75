"""OidcSettings: the settings of the sign-in of persons by OpenID Connect."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Literal, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode

from app.platform.issuers.tokens import Issuer, Patterns
from app.platform.serialization.setting_forms import in_json

Role: TypeAlias = Literal["viewer", "user", "billing", "admin"]

CALLBACK = "/v1/browser-session/oidc/callback"
ANY = "*"
"""As the name of a group: every person whom the issuer lets in."""
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}
_NEEDED = ("oidc_client_id", "oidc_client_secret", "oidc_redirect_url")

_Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=500)]


def _is_safe(url: str) -> str:
    parts = urlsplit(url)
    is_http = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not is_http or not parts.hostname or "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("must be a URL with https, or with http on this machine, without a query")
    return url


def _is_callback(url: str) -> str:
    if not url.endswith(CALLBACK):
        raise ValueError(f"must end with {CALLBACK}")
    return url


def _words(value: object) -> object:
    return value.split() if isinstance(value, str) else value


def _names(value: object) -> object:
    return tuple(map(str.strip, value.split(","))) if isinstance(value, str) else value


def _has_openid(value: tuple[str, ...]) -> tuple[str, ...]:
    if "openid" not in value:
        raise ValueError("must have openid")
    return value


_Url: TypeAlias = Annotated[str, Field(max_length=2000), AfterValidator(_is_safe)]


class OidcProvider(Issuer):
    """An issuer at which persons sign in, and what it gives to whom; its audience is our client id."""

    names_keys = False
    """With one key it need not (OpenID Connect Core 1.0, 10.1)."""
    client_secret: SecretStr
    redirect_url: str
    scopes: tuple[str, ...]
    role_claim: str
    roles: Mapping[str, Role]
    lifetime: timedelta
    """Of a session."""

    @property
    def host(self) -> str:
        """How the sign-in page names it."""
        return urlsplit(self.issuer).netloc

    @property
    def site(self) -> str:
        """The address of the chat page, without the slash at its end."""
        return self.redirect_url.removesuffix(CALLBACK)

    @property
    def claims_of_access(self) -> set[str | None]:
        """What decides who a person is and what they may do."""
        return {self.account_claim, self.role_claim, self.end_user_claim}

    def role_of(self, claimed: object) -> Role | None:
        """The role of a person with this value of the claim: the first of the setting that fits."""
        groups = claimed if isinstance(claimed, list) else [claimed]
        return next((role for name, role in self.roles.items() if name == ANY or name in groups), None)


class OidcSettings(BaseSettings):
    """Settings of the sign-in of persons; part of `Settings`."""

    oidc_issuer: _Url | None = None
    oidc_client_id: _Text | None = None
    oidc_client_secret: Annotated[SecretStr, Field(min_length=1)] | None = None
    oidc_redirect_url: Annotated[_Url, AfterValidator(_is_callback)] | None = None
    oidc_scopes: Annotated[
        tuple[str, ...], NoDecode, BeforeValidator(_words), AfterValidator(_has_openid)
    ] = ("openid", "profile", "email")
    oidc_session_minutes: int = Field(480, ge=5, le=10_080)
    oidc_end_user_claim: _Text = "sub"
    oidc_account: _Text | None = None
    oidc_account_claim: _Text | None = None
    oidc_accounts: Annotated[Patterns, NoDecode, BeforeValidator(_names)] | None = None
    oidc_role_claim: _Text = "groups"
    oidc_roles: Annotated[
        dict[_Text, Role],
        NoDecode,
        in_json('must be a JSON object of groups and roles, for example {"staff": "user"}'),
    ] = Field(default_factory=dict)

    @field_validator("oidc_roles")
    @classmethod
    def _is_whole(cls, value: dict[str, Role], info: ValidationInfo) -> dict[str, Role]:
        given = info.data
        if given.get("oidc_issuer") is None:
            return value
        if missing := [name for name in _NEEDED if given.get(name) is None]:
            raise ValueError(f"RUNTALLY_OIDC_ISSUER needs {f'RUNTALLY_{missing[0]}'.upper()}")
        if not value:
            raise ValueError("RUNTALLY_OIDC_ISSUER needs the roles of groups")
        if (given.get("oidc_account") is None) == (given.get("oidc_account_claim") is None):
            raise ValueError("needs either RUNTALLY_OIDC_ACCOUNT or RUNTALLY_OIDC_ACCOUNT_CLAIM")
        if (given.get("oidc_account_claim") is None) != (given.get("oidc_accounts") is None):
            raise ValueError("needs RUNTALLY_OIDC_ACCOUNTS with RUNTALLY_OIDC_ACCOUNT_CLAIM, and only then")
        return value

    @property
    def oidc(self) -> OidcProvider | None:
        """The issuer at which persons sign in; None without one."""
        if self.oidc_issuer is None:
            return None
        return OidcProvider.of(
            issuer=self.oidc_issuer,
            audience=self.oidc_client_id,
            account=self.oidc_account,
            account_claim=self.oidc_account_claim,
            accounts=self.oidc_accounts,
            end_user_claim=self.oidc_end_user_claim,
            client_secret=self.oidc_client_secret,
            redirect_url=self.oidc_redirect_url,
            scopes=self.oidc_scopes,
            role_claim=self.oidc_role_claim,
            roles=self.oidc_roles,
            lifetime=timedelta(minutes=self.oidc_session_minutes),
        )
