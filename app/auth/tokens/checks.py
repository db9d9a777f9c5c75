"""What a token must be to be believed: signed by a key of its issuer, for this server, and not expired."""

from collections.abc import Mapping
from typing import Any, Final

import jwt
from pydantic import TypeAdapter

from app.auth.tokens.issuer_keys import IssuerKeys
from app.errors import Unauthenticated
from app.platform.issuers.tokens import Issuer
from app.requests.attribution import EndUser

MAX_TOKEN_CHARS: Final = 8192
SKEW_S: Final = 60
"""How far the clocks of an issuer and of this server may differ."""
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


def unverified(token: str, *, most: int = MAX_TOKEN_CHARS) -> tuple[Mapping[str, Any], object]:
    """The header of a token, and the issuer that it names; raises `Unauthenticated`."""
    if len(token) > most:
        raise TokenRefused.because(f"it has more than {most} characters")
    try:
        found = jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError) as error:
        raise Unauthenticated from error
    return found["header"], found["payload"].get("iss")


async def claims_of(
    token: str, header: Mapping[str, Any], issuer: Issuer, keys: IssuerKeys
) -> Mapping[str, Any]:
    """The claims of a token of this issuer.

    Raises `IssuerUnavailable`, `TokenExpired`, and `TokenRefused` for every other reason.
    """
    algorithm = header.get("alg")
    if algorithm not in issuer.algorithms:
        raise TokenRefused.because("its alg is none of those that are configured")
    if "crit" in header or str(header.get("typ", "JWT")).lower() not in _TYPES:
        raise TokenRefused.because("its header must have the typ JWT and no crit")
    if (key := await _key_for(header, issuer, keys)) is None:
        raise TokenRefused.because("its kid names no key of its issuer")
    return _verified(token, issuer, key, str(algorithm), now_s=keys.now().timestamp())


async def _key_for(header: Mapping[str, Any], issuer: Issuer, keys: IssuerKeys) -> Mapping[str, Any] | None:
    key_id = header.get("kid")
    if key_id is None and not issuer.names_keys:
        return await keys.find_only(issuer)
    return await keys.find(issuer, key_id) if isinstance(key_id, str) else None


def account_in(claims: Mapping[str, Any], issuer: Issuer) -> str:
    """The name of the account that a token reaches; raises `TokenRefused`."""
    account = issuer.account_of(claims.get(issuer.account_claim or ""))
    if account is None:
        raise TokenRefused.because(f"its issuer is not given the account in {issuer.account_claim}")
    return account


def end_user_in(claims: Mapping[str, Any], issuer: Issuer) -> str:
    """The end user whom a token is for; raises `TokenRefused`."""
    try:
        return _END_USER.validate_python(claims.get(issuer.end_user_claim))
    except ValueError as error:
        why = f"its {issuer.end_user_claim} must be the end user, 1 to 128 printable characters"
        raise TokenRefused.because(why) from error


def _verified(
    token: str, issuer: Issuer, key: Mapping[str, Any], algorithm: str, *, now_s: float
) -> Mapping[str, Any]:
    """The claims of a token that this key has signed; raises `TokenExpired`, `TokenRefused`."""
    if key.get("alg", algorithm) != algorithm:
        raise TokenRefused.because("its alg is not that of its key")
    try:
        claims = jwt.decode(
            token,
            jwt.PyJWK(dict(key), algorithm),
            algorithms=[algorithm],
            audience=issuer.audience,
            issuer=issuer.issuer,
            options={
                "require": ["exp", "iss", "aud"],
                "enforce_minimum_key_length": True,
                # By the host's clock, which may be wrong.
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
            },
        )
        is_over = int(claims["exp"]) <= now_s - SKEW_S
        if any(int(claims[name]) > now_s + SKEW_S for name in ("nbf", "iat") if name in claims):
            raise jwt.ImmatureSignatureError
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError) as error:
        why = _WHY.get(type(error), "its key, signature or claims are not valid")
        raise TokenRefused.because(why) from error
    if is_over:
        raise TokenExpired
    return claims
