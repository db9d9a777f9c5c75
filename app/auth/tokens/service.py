"""Tokens: authenticates requests by tokens (JWT) that issuers of the operator's choice have signed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final

import jwt
import structlog
from pydantic import TypeAdapter

from app.auth.accounts import AccountNotFound, Accounts
from app.auth.keys import hash_key
from app.auth.tokens.issuer_keys import IssuerKeys
from app.errors import Unauthenticated
from app.ids import AccountId
from app.platform.token_issuers import TokenIssuer
from app.requests.attribution import EndUser, KeyLabels
from app.requests.principal import Principal

log = structlog.get_logger(__name__)

MAX_TOKEN_CHARS: Final = 8192
SKEW_S: Final = 60
"""How far the clocks of an issuer and of this server may differ."""
_LATEST_S: Final = datetime(9999, 1, 1, tzinfo=UTC).timestamp()
_TYPES: Final = {"jwt", "at+jwt", "application/at+jwt"}
_END_USER: Final = TypeAdapter[str](EndUser)
_WHY: Final[Mapping[type[Exception], str]] = {
    jwt.InvalidAudienceError: "its aud is not that of this server",
    jwt.MissingRequiredClaimError: "it must have exp, iss and aud",
    jwt.ImmatureSignatureError: "it is not valid yet",
    jwt.InvalidSignatureError: "its signature is not that of its key",
}


class TokenRefused(Unauthenticated):
    """This token is not accepted."""

    code = "token_refused"

    @classmethod
    def because(cls, why: str) -> "TokenRefused":
        """The error with its reason, in our words."""
        return cls(f"This token is not accepted: {why}.")


class TokenExpired(Unauthenticated):
    """This token has expired; get another one from its issuer."""

    code = "token_expired"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Checks tokens. What they start belongs to a key that each account has for each issuer.

    To revoke that key ends all tokens of the issuer for the account.
    """

    accounts: Accounts
    keys: IssuerKeys
    issuers: Sequence[TokenIssuer]
    _made: dict[tuple[str, AccountId], bytes] = field(default_factory=dict)
    """The hashes of the keys that are known to exist, by issuer and account."""

    async def authenticate(self, token: str) -> Principal:
        """The end user whom a token is for.

        Raises `AccountSuspended`, `IssuerUnavailable`, and `TokenExpired`, `TokenRefused` or their base for
        every other reason.
        """
        header, claimed = _unverified(token)
        issuer = next((each for each in self.issuers if each.issuer == claimed), None)
        if issuer is None:
            raise Unauthenticated
        try:
            return await self._accepted(issuer, header, token)
        except (TokenRefused, TokenExpired) as error:
            log.info("token.refused", issuer=issuer.issuer, reason=error.detail)
            raise

    async def _accepted(self, issuer: TokenIssuer, header: Mapping[str, Any], token: str) -> Principal:
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in issuer.algorithms:
            raise TokenRefused.because("its alg is none of those that are configured")
        if "crit" in header or str(header.get("typ", "JWT")).lower() not in _TYPES:
            raise TokenRefused.because("its header must have the typ JWT and no crit")
        if not isinstance(key_id, str) or (key := await self.keys.find(issuer, key_id)) is None:
            raise TokenRefused.because("its kid names no key of its issuer")
        claims = _verified(token, issuer, key, str(algorithm))
        account = issuer.account_of(claims.get(issuer.account_claim or ""))
        end_user = claims.get(issuer.end_user_claim)
        if account is None:
            raise TokenRefused.because(f"its issuer is not given the account in {issuer.account_claim}")
        try:
            end_user = _END_USER.validate_python(end_user)
        except ValueError as error:
            why = f"its {issuer.end_user_claim} must be the end user, 1 to 128 printable characters"
            raise TokenRefused.because(why) from error
        principal = await self._holder(issuer, account)
        expires_at = datetime.fromtimestamp(min(int(claims["exp"]) + SKEW_S, _LATEST_S), UTC)
        labels = KeyLabels.model_validate({"endUser": end_user, "fixed": True})
        terms = replace(principal.terms, expires_at=expires_at, graphs=issuer.graphs, labels=labels)
        scopes = frozenset(issuer.scopes) & _scopes_in(claims, issuer)
        return replace(principal, scopes=scopes, terms=terms, end_user=end_user)

    async def _holder(self, issuer: TokenIssuer, name: str) -> Principal:
        """The holder of the key that the account has for the issuer, which is made when it is needed."""
        try:
            account = await self.accounts.find_by_name(name)
        except AccountNotFound as error:
            raise TokenRefused.because("its account does not exist") from error
        place = issuer.issuer, account.id
        if place not in self._made:
            # No text that is accepted as a key: those begin otherwise.
            secret = f"issuer:\n{issuer.issuer}\n{issuer.audience}\n{account.id}"
            await self.accounts.ensure_key(secret, account=name, scopes=issuer.scopes, name=issuer.issuer)
            self._made[place] = hash_key(secret)
        return await self.accounts.find_holder(self._made[place])


def _unverified(token: str) -> tuple[Mapping[str, Any], object]:
    """The header of a token, and the issuer that it names; raises `Unauthenticated`."""
    if len(token) > MAX_TOKEN_CHARS:
        raise TokenRefused.because(f"it has more than {MAX_TOKEN_CHARS} characters")
    try:
        found = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise Unauthenticated from error
    return found["header"], found["payload"].get("iss")


def _verified(token: str, issuer: TokenIssuer, key: Mapping[str, Any], algorithm: str) -> Mapping[str, Any]:
    """The claims of a token that this key has signed; raises `TokenExpired`, `TokenRefused`."""
    if key.get("alg", algorithm) != algorithm:
        raise TokenRefused.because("its alg is not that of its key")
    try:
        return jwt.decode(
            token,
            jwt.PyJWK(dict(key), algorithm),
            algorithms=[algorithm],
            audience=issuer.audience,
            issuer=issuer.issuer,
            leeway=SKEW_S,
            options={"require": ["exp", "iss", "aud"], "enforce_minimum_key_length": True},
        )
    except jwt.ExpiredSignatureError as error:
        raise TokenExpired from error
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
        why = _WHY.get(type(error), "its key, signature or claims are not valid")
        raise TokenRefused.because(why) from error


def _scopes_in(claims: Mapping[str, Any], issuer: TokenIssuer) -> frozenset[str]:
    """The scopes that a token is limited to: a text with spaces between them, or a list."""
    if issuer.scope_claim is None:
        return frozenset(issuer.scopes)
    found = claims.get(issuer.scope_claim)
    words = found.split() if isinstance(found, str) else found
    listed = words if isinstance(words, list) else []
    return frozenset(each for each in listed if isinstance(each, str))
