"""DeviceLogins: signs in programs for a person who approves it in a browser.

An approved login is an API key of its own, which nothing opens but its tokens: it is listed, limited and
revoked like any other.
"""

import hashlib
import hmac
import secrets
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from app.auth.accounts import Accounts
from app.auth.browser_session_repository import delete_expired, find_active_session, insert_session
from app.auth.device_logins import repository
from app.auth.device_logins.records import BegunLogin, DeviceLogin, LoginTokens, RequestedLogin
from app.auth.giving import new_terms, require_scopes
from app.auth.keys import mint_key
from app.auth.new_keys import insert_new_key
from app.auth.records import NewKey
from app.errors import AppError, Forbidden, NotFound, Unauthenticated
from app.ids import ApiKeyId, new_uuid
from app.platform.audit.records import Actor
from app.platform.db import Database, Transaction
from app.requests.attribution import KeyLabels
from app.requests.principal import Principal, Scope

CODE_LIFETIME: Final = timedelta(minutes=10)
TOKEN_LIFETIME: Final = timedelta(hours=1)
LOGIN_LIFETIME: Final = timedelta(days=30)
SCOPES: Final[tuple[Scope, ...]] = ("external:write",)
GRAPHS: Final = ("external:anthropic",)
_TOKEN: Final = "rl_"  # noqa: S105 - how they begin
_LETTERS: Final = "BCDFGHJKLMNPQRSTVWXZ"
"""Of user codes: without vowels, so that they are no words (RFC 8628, 6.1)."""
USER_CODE: Final = rf"^[{_LETTERS}]{{4}}-[{_LETTERS}]{{4}}$"
_MAX_CLIENT_CHARS: Final = 200


class LoginNotFound(NotFound):
    """No login with this code waits for a decision."""

    code = "login_not_found"


class OfLogin(Forbidden):
    """A program that was signed in cannot sign in others; a person does."""

    code = "of_login"


class LoginEnded(Unauthenticated):
    """This login has ended; sign in again."""


class AuthorizationPending(AppError):
    """No person has decided yet."""

    status, code = 400, "authorization_pending"


class AskedTooSoon(AppError):
    """Ask less often."""

    status, code = 400, "slow_down"


class LoginDenied(AppError):
    """A person has denied the login."""

    status, code = 400, "access_denied"


class CodeExpired(AppError):
    """The login was not approved in time; begin another one."""

    status, code = 400, "expired_token"


class GrantRefused(AppError):
    """This code or token is unknown, was used, or has ended; sign in again."""

    status, code = 401, "invalid_grant"


@dataclass(frozen=True, slots=True)
class DeviceLogins:
    """Signs in devices. Codes and tokens are 256 random bits and stored as hashes."""

    database: Database
    accounts: Accounts

    async def request(self, client: str, address: str | None) -> BegunLogin:
        """Begin a login that a person is to approve."""
        device_code, letters = secrets.token_urlsafe(32), [secrets.choice(_LETTERS) for _ in range(8)]
        user_code = "".join(letters[:4]) + "-" + "".join(letters[4:])
        async with self.database.transaction() as tx:
            await repository.insert_login(
                tx,
                lifetime=CODE_LIFETIME,
                device_hash=_hash(device_code),
                user_code=user_code,
                client=client[:_MAX_CLIENT_CHARS],
                address=address,
                refresh_seed=secrets.token_bytes(32),
            )
        return BegunLogin(device_code, user_code)

    async def find(self, user_code: str) -> RequestedLogin:
        """The login that waits with this code; raises `LoginNotFound`."""
        async with self.database.read() as reader:
            found = await repository.find_requested(reader, user_code)
        if found is None:
            raise LoginNotFound
        return found

    async def approve(self, user_code: str, person: Principal, *, by: Actor) -> None:
        """Let the device call the model for this person, with at most what they may themselves.

        Raises `LoginNotFound`, `OfLogin`, `ExceedsOwnRights`, `Unauthenticated`.
        """
        require_scopes(person, SCOPES)
        key_id, end = ApiKeyId(new_uuid()), datetime.now(UTC) + LOGIN_LIFETIME
        end = min(end, person.terms.expires_at or end)
        labels = None if person.person is None else KeyLabels.of(end_user=person.person, fixed=True)
        terms = new_terms(person, key_id, {"expires_at": end, "graphs": GRAPHS, "labels": labels})
        async with self.database.transaction() as tx:
            await self.accounts.require_active_key(tx, person.api_key_id)
            if await repository.is_of_login(tx, person.api_key_id):
                # Otherwise a stolen token could outlive its hour.
                raise OfLogin
            name, giver = f"login {user_code}", person.api_key_id
            new = NewKey(key_id, person.account_id, mint_key(), SCOPES, name, terms, giver)
            await insert_new_key(tx, new, by)
            decision = {"api_key_id": key_id, "approved_by": giver, "expires_at": end}
            if not await repository.decide(tx, user_code, **decision):
                raise LoginNotFound

    async def deny(self, user_code: str) -> None:
        """Let the device know that it is not signed in; raises `LoginNotFound`."""
        async with self.database.transaction() as tx:
            if not await repository.decide(tx, user_code, is_denied=True):
                raise LoginNotFound

    async def redeem(self, device_code: str) -> LoginTokens:
        """The tokens of a login, once it is approved.

        Raises `AuthorizationPending`, `AskedTooSoon`, `LoginDenied`, `CodeExpired`, `GrantRefused`.
        """
        device_hash = _hash(device_code)
        async with self.database.transaction() as tx:
            login = await repository.lock_login(tx, device_hash)
            if login is None or login.refresh_hash is not None:
                raise GrantRefused
            if login.is_expired:
                raise CodeExpired
            if login.is_denied:
                raise LoginDenied
            await repository.note_poll(tx, device_hash)
            if login.api_key_id is not None and not login.is_early:
                secret = secrets.token_urlsafe(32)
                await repository.store_first_token(tx, device_hash, _hash(secret))
                return await self._tokens(tx, login, device_code, secret)
        raise AskedTooSoon if login.is_early else AuthorizationPending

    async def refresh(self, token: str, *, by: Actor) -> LoginTokens:
        """New tokens for a refresh token, which can be used once.

        One that was used before ends the login: there are two who have it. Raises `GrantRefused`.
        """
        device_code, _, secret = token.partition(".")
        device_hash, given = _hash(device_code), _hash(secret)
        async with self.database.transaction() as tx:
            login = await repository.lock_login(tx, device_hash)
            if login is None or login.refresh_hash is None or login.is_expired:
                raise GrantRefused
            is_last = given == login.refresh_hash
            if is_last or (given == login.previous_hash and login.is_repeatable):
                following = _next(login.refresh_seed, secret)
                if is_last:
                    await repository.replace_token(tx, device_hash, used=given, following=_hash(following))
                return await self._tokens(tx, login, device_code, following)
        await self.accounts.revoke_key(_key_of(login), by=by)
        raise GrantRefused

    async def authenticate(self, access_token: str) -> Principal:
        """The person's device; raises `LoginEnded` for every reason."""
        async with self.database.read() as reader:
            session = await find_active_session(reader, _hash(access_token))
        if session is None:
            raise LoginEnded
        return session.principal(_hash(access_token))

    async def account_of(self, access_token: str) -> tuple[str, str | None]:
        """The name of the account that a device is signed in to, and the end user whom it is for."""
        principal = await self.authenticate(access_token)
        names = await self.accounts.find_names({principal.account_id})
        labels = principal.terms.labels
        return names[principal.account_id], None if labels is None else labels.end_user

    async def end(self, token: str, *, by: Actor) -> None:
        """End the login that a token of either kind is of; there need not be one."""
        if is_access_token(token):
            async with self.database.read() as reader:
                session = await find_active_session(reader, _hash(token))
            key_id = None if session is None else session.api_key_id
        else:
            async with self.database.transaction() as tx:
                login = await repository.lock_login(tx, _hash(token.partition(".")[0]))
            key_id = None if login is None else login.api_key_id
        if key_id is not None:
            await self.accounts.revoke_key(key_id, by=by)

    async def _tokens(
        self, tx: Transaction, login: DeviceLogin, device_code: str, secret: str
    ) -> LoginTokens:
        access_token = _TOKEN + secrets.token_urlsafe(32)
        try:
            for key_id in filter(None, (login.api_key_id, login.approved_by)):
                await self.accounts.require_active_key(tx, key_id)
        except (Unauthenticated, Forbidden) as error:
            raise GrantRefused from error
        await delete_expired(tx)
        await insert_session(tx, _hash(access_token), _key_of(login), lifetime=TOKEN_LIFETIME)
        return LoginTokens(access_token, f"{device_code}.{secret}")


def is_access_token(token: str) -> bool:
    return token.startswith(_TOKEN)


def _key_of(login: DeviceLogin) -> ApiKeyId:
    if login.api_key_id is None:
        raise GrantRefused
    return login.api_key_id


def _next(seed: bytes, secret: str) -> str:
    """The refresh token after this one: the same for two processes of a device that refresh at once."""
    return urlsafe_b64encode(hmac.digest(seed, secret.encode(), "sha256")).decode().rstrip("=")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
