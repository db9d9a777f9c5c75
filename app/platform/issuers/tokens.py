"""Issuers whose tokens are trusted, as settings name them."""

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from app.requests.principal import matches_any
from app.requests.wire_models import InputModel

Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""All are asymmetric: who can check a token cannot make one."""

EndUserScope: TypeAlias = Literal["runs:write", "runs:read", "runs:approve", "runs:share", "receipts:read"]
"""The others are for what is closed to end users."""

_Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=500)]
_Url: TypeAlias = Annotated[str, Field(pattern=r"^https?://[^\s/?#@]+(/\S*)?$", max_length=2000)]
Patterns: TypeAlias = Annotated[
    tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9*][A-Za-z0-9_.:*-]{0,199}$")], ...], Field(min_length=1)
]
"""Names, in which `*` stands for any characters."""


class Issuer(InputModel):
    """Who makes tokens, what they must be like, and whom they are for."""

    names_keys: ClassVar[bool] = True
    """Whether each token must name its key."""

    issuer: _Text
    audience: _Text
    jwks_url: _Url | None = None
    """Where its keys are; None: its OpenID configuration names it."""
    algorithms: Annotated[tuple[Algorithm, ...], Field(min_length=1)] = ("RS256", "ES256", "EdDSA")
    account: _Text | None = None
    account_claim: _Text | None = None
    accounts: Patterns | None = None
    """The names that the claim may have."""
    end_user_claim: _Text = "sub"

    @property
    def is_url(self) -> bool:
        """Whether clients find its configuration by its name."""
        return self.issuer.startswith(("https://", "http://"))

    @property
    def discovery_url(self) -> str:
        """Where its OpenID configuration is."""
        return f"{self.issuer.removesuffix('/')}/.well-known/openid-configuration"

    def account_of(self, claimed: object) -> str | None:
        """The account of a token with this value of the claim; None if it may not have that."""
        if self.account is not None:
            return self.account
        allowed = isinstance(claimed, str) and matches_any(claimed, self.accounts or ())
        return str(claimed) if allowed else None


class TokenIssuer(Issuer):
    """An issuer whose tokens are accepted instead of API keys, and the most that they may do."""

    scopes: Annotated[tuple[EndUserScope, ...], Field(min_length=1)]
    scope_claim: _Text | None = None
    """Has the scopes of a token, which are never more than `scopes`; a token without it has none."""
    graphs: Patterns | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        if (self.account is None) == (self.account_claim is None):
            raise ValueError("must have either account or accountClaim")
        if (self.account_claim is None) != (self.accounts is None):
            raise ValueError("must have accounts with accountClaim, and only then")
        if self.jwks_url is None and not self.is_url:
            raise ValueError("must have jwksUrl, because its issuer is not a URL")
        return self


def check_issuers(value: tuple[TokenIssuer, ...]) -> tuple[TokenIssuer, ...]:
    """Raise `ValueError` if an issuer is named twice: the keys that check a token follow from its issuer."""
    if len({each.issuer for each in value}) != len(value):
        raise ValueError("must have each issuer once")
    return value
