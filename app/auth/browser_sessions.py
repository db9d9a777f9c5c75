"""BrowserSessions: session cookies that stand for an API key in a browser."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta

from app.auth.accounts import Accounts
from app.auth.browser_session_repository import (
    delete_expired,
    delete_session,
    find_active_session,
    insert_session,
)
from app.auth.records import BrowserSession, SignedInPerson
from app.errors import Unauthenticated
from app.ids import ApiKeyId
from app.platform.db import Database
from app.requests.principal import Principal

LIFETIME = timedelta(days=7)
"""Counted from the sign-in; using a session does not extend it."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


class SessionEnded(Unauthenticated):
    """The session has ended, or its API key was revoked; sign in again."""


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A new session; the token cannot be retrieved later."""

    token: str
    session: BrowserSession


class BrowserSessions:
    """Exchanges an API key for a session token, so that the browser need not store the key.

    A session has the scopes of its key and ends when the key is revoked. Tokens, like keys, are 256 random
    bits and stored as a hash.
    """

    def __init__(self, database: Database, accounts: Accounts) -> None:
        self._database = database
        self._accounts = accounts

    async def open(self, api_key: str) -> OpenedSession:
        """Create a session for this API key; raises `Unauthenticated`."""
        caller = await self._accounts.authenticate(api_key)
        opened = await self._open(caller.api_key_id, LIFETIME)
        if opened is None:
            raise Unauthenticated
        return opened

    async def open_for(
        self, person: SignedInPerson, holder: Principal, sign_in: bytes, *, lifetime: timedelta
    ) -> OpenedSession | None:
        """A session for a person, with the key of `holder`; None if `sign_in` has led to one before."""
        return await self._open(holder.api_key_id, lifetime, person, sign_in)

    async def authenticate(self, token: str) -> Principal:
        """The principal of the session's key; raises the same `SessionEnded` for every reason."""
        return (await self.find(token)).principal(_hash(token))

    async def find(self, token: str) -> BrowserSession:
        """The session of this token; raises `SessionEnded`."""
        if not _TOKEN.fullmatch(token):
            raise SessionEnded
        async with self._database.read() as reader:
            session = await find_active_session(reader, _hash(token))
        if session is None:
            raise SessionEnded
        return session

    async def close(self, token: str) -> None:
        async with self._database.transaction() as tx:
            await delete_session(tx, _hash(token))

    async def _open(
        self,
        key_id: ApiKeyId,
        lifetime: timedelta,
        person: SignedInPerson | None = None,
        sign_in: bytes | None = None,
    ) -> OpenedSession | None:
        token = secrets.token_urlsafe(32)
        async with self._database.transaction() as tx:
            await delete_expired(tx)
            await insert_session(tx, _hash(token), key_id, lifetime=lifetime, person=person, sign_in=sign_in)
            # There is none if the key was revoked at this moment.
            session = await find_active_session(tx, _hash(token))
        return None if session is None else OpenedSession(token, session)


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
