"""PersonSignIn: the sign-in of persons at the issuer of the operator's choice (OpenID Connect)."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import structlog

from app.auth.browser_sessions import BrowserSessions, OpenedSession
from app.auth.oidc.attempt import Attempt
from app.auth.oidc.code_exchange import REDEEMING, CodeExchange
from app.auth.records import SignedInPerson
from app.auth.roles import ROLES
from app.auth.tokens.answers import FAILURES, Unusable, named_url, why
from app.auth.tokens.checks import TokenRefused, account_in, claims_of, end_user_in, unverified
from app.auth.tokens.holders import KeyHolders
from app.auth.tokens.issuer_keys import IssuerKeys, IssuerUnavailable
from app.errors import AppError, Unauthenticated
from app.platform.issuers.persons import OidcProvider, Role
from app.storable import is_storable

log = structlog.get_logger(__name__)

_AUTHORIZATION: Final = "authorization_endpoint"
ENDPOINTS: Final = (_AUTHORIZATION, REDEEMING)
"""What an issuer of persons must have."""
MAX_CODE_CHARS: Final = 4096
_MAX_TOKEN_CHARS: Final = 65_536
"""Tokens that come from the issuer itself, and may have many groups."""
_NAMES: Final = ("name", "preferred_username", "email")
_MAX_NAME_CHARS: Final = 200


class SignInRefused(Unauthenticated):
    """This sign-in is not accepted; begin again."""

    code = "sign_in_refused"


class SignInExpired(SignInRefused):
    """This sign-in is over, or began in another browser; begin again."""

    code = "sign_in_expired"


class SignInDenied(SignInRefused):
    """The issuer has not signed this person in."""

    code = "sign_in_denied"


class NoRole(SignInRefused):
    """This person has no role here."""

    code = "no_role"


@dataclass(frozen=True, slots=True)
class PersonSignIn:
    """Sends browsers to the issuer, and opens a session for who comes back.

    What persons start belongs to a key that their account has for each role.
    """

    provider: OidcProvider
    keys: IssuerKeys
    exchange: CodeExchange
    holders: KeyHolders
    sessions: BrowserSessions

    async def address(self, attempt: Attempt) -> str:
        """Where a browser begins; raises `IssuerUnavailable`."""
        query = {
            "response_type": "code",
            "client_id": self.provider.audience,
            "redirect_uri": self.provider.redirect_url,
            "scope": " ".join(self.provider.scopes),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.challenge,
            "code_challenge_method": "S256",
        }
        found = await self._endpoint(_AUTHORIZATION, query)
        if found is None:
            raise IssuerUnavailable
        return found

    async def address_of_end(self) -> str | None:
        """Where a person is signed out at the issuer; None if it does not say. Raises `IssuerUnavailable`."""
        query = {
            "client_id": self.provider.audience,
            "post_logout_redirect_uri": f"{self.provider.site}/",
        }
        return await self._endpoint("end_session_endpoint", query)

    async def finish(self, answer: Mapping[str, str], attempt: Attempt) -> OpenedSession:
        """The session of the person whom the issuer has signed in, as it says with this answer.

        Raises `SignInRefused`, `TokenRefused`, `TokenExpired`, `IssuerUnavailable`, `AccountSuspended`.
        """
        try:
            return await self._open(answer, attempt)
        except AppError as error:
            log.info("sign_in.refused", issuer=self.provider.issuer, reason=error.detail)
            raise

    async def _open(self, answer: Mapping[str, str], attempt: Attempt) -> OpenedSession:
        if not _same(answer.get("state"), attempt.state):
            raise SignInExpired
        configuration = await self.keys.configuration(self.provider)
        self._require_own(answer, configuration)
        code = answer.get("code", "")
        if "error" in answer:
            raise SignInDenied
        if not 1 <= len(code) <= MAX_CODE_CHARS:
            raise SignInRefused
        claims = await self._claims(await self._redeemed(configuration, code, attempt), attempt)
        role = self._role_in(claims)
        person = SignedInPerson(_name_in(claims), end_user_in(claims, self.provider), role)
        holder = await self.holders.find(
            account_in(claims, self.provider),
            "\n".join(["person:", self.provider.issuer, self.provider.audience, role, *ROLES[role]]),
            scopes=ROLES[role],
            name=f"{self.provider.issuer} ({role})",
        )
        opened = await self.sessions.open_for(person, holder, attempt.hash, lifetime=self.provider.lifetime)
        if opened is None:
            raise SignInExpired
        return opened

    async def _redeemed(self, configuration: Mapping[str, Any], code: str, attempt: Attempt) -> str:
        try:
            return await self.exchange.redeem(self.provider, configuration, code, attempt)
        except FAILURES as error:
            log.warning("sign_in.not_redeemed", issuer=self.provider.issuer, reason=why(error))
            raise (SignInRefused if type(error) is Unusable else IssuerUnavailable) from error

    def _require_own(self, answer: Mapping[str, str], configuration: Mapping[str, Any]) -> None:
        """Raise `SignInRefused` for an answer of another issuer (RFC 9207)."""
        is_promised = configuration.get("authorization_response_iss_parameter_supported") is True
        named = answer.get("iss", None if is_promised else self.provider.issuer)
        if named != self.provider.issuer:
            raise SignInRefused

    async def _claims(self, token: str, attempt: Attempt) -> Mapping[str, Any]:
        header, _ = unverified(token, most=_MAX_TOKEN_CHARS)
        claims = await claims_of(token, header, self.provider, self.keys)
        if not _same(claims.get("nonce"), attempt.nonce):
            raise TokenRefused.because("its nonce is not that of this sign-in")
        audience, party = claims["aud"], claims.get("azp")
        is_for_others = isinstance(audience, list) and len(audience) > 1
        if (party is not None or is_for_others) and party != self.provider.audience:
            raise TokenRefused.because("its azp is not this server")
        if "email" in self.provider.claims_of_access and claims.get("email_verified") is not True:
            # Some issuers let persons choose it.
            raise TokenRefused.because("its email is not verified")
        return claims

    def _role_in(self, claims: Mapping[str, Any]) -> Role:
        role = self.provider.role_of(claims.get(self.provider.role_claim))
        if role is None:
            raise NoRole
        return role

    async def _endpoint(self, name: str, query: Mapping[str, str]) -> str | None:
        try:
            url = named_url(await self.keys.configuration(self.provider), name, self.provider)
        except (Unusable, ValueError):
            return None
        return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def _same(given: object, wanted: str) -> bool:
    return isinstance(given, str) and hmac.compare_digest(given.encode(errors="replace"), wanted.encode())


def _name_in(claims: Mapping[str, Any]) -> str | None:
    """What the pages call a person; None if the issuer does not say."""
    for name in map(claims.get, _NAMES):
        if isinstance(name, str) and name and is_storable(name):
            return name[:_MAX_NAME_CHARS]
    return None
