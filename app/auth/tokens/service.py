"""Tokens: authenticates requests by tokens (JWT) that issuers of the operator's choice have signed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import structlog

from app.auth.tokens import checks
from app.auth.tokens.holders import KeyHolders
from app.auth.tokens.issuer_keys import IssuerKeys
from app.errors import Unauthenticated
from app.platform.issuers.tokens import TokenIssuer
from app.requests.attribution import KeyLabels
from app.requests.principal import Principal

log = structlog.get_logger(__name__)

_LATEST_S: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()


@dataclass(frozen=True, slots=True)
class Tokens:
    """Checks tokens. What they start belongs to a key that each account has for each issuer.

    To revoke that key ends all tokens of the issuer for the account.
    """

    holders: KeyHolders
    keys: IssuerKeys
    issuers: Sequence[TokenIssuer]

    async def authenticate(self, token: str) -> Principal:
        """The end user whom a token is for.

        Raises `AccountSuspended`, `IssuerUnavailable`, and `TokenExpired`, `TokenRefused` or their base for
        every other reason.
        """
        header, claimed = checks.unverified(token)
        issuer = next((each for each in self.issuers if each.issuer == claimed), None)
        if issuer is None:
            raise Unauthenticated
        try:
            return await self._accepted(issuer, header, token)
        except (checks.TokenRefused, checks.TokenExpired) as error:
            log.info("token.refused", issuer=issuer.issuer, reason=error.detail)
            raise

    async def _accepted(self, issuer: TokenIssuer, header: Mapping[str, Any], token: str) -> Principal:
        claims = await checks.claims_of(token, header, issuer, self.keys)
        account, end_user = checks.account_in(claims, issuer), checks.end_user_in(claims, issuer)
        text = f"issuer:\n{issuer.issuer}\n{issuer.audience}"
        principal = await self.holders.find(account, text, scopes=issuer.scopes, name=issuer.issuer)
        expires_at = datetime.fromtimestamp(min(int(claims["exp"]) + checks.SKEW_S, _LATEST_S), UTC)
        labels = KeyLabels.model_validate({"endUser": end_user, "fixed": True})
        terms = replace(principal.terms, expires_at=expires_at, graphs=issuer.graphs, labels=labels)
        scopes = frozenset(issuer.scopes) & _scopes_in(claims, issuer)
        return replace(principal, scopes=scopes, terms=terms, end_user=end_user)


def _scopes_in(claims: Mapping[str, Any], issuer: TokenIssuer) -> frozenset[str]:
    """The scopes that a token is limited to: a text with spaces between them, or a list."""
    if issuer.scope_claim is None:
        return frozenset(issuer.scopes)
    found = claims.get(issuer.scope_claim)
    words = found.split() if isinstance(found, str) else found
    listed = words if isinstance(words, list) else []
    return frozenset(each for each in listed if isinstance(each, str))
