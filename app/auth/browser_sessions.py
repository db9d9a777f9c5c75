"""Browser sessions: what a browser holds instead of an API key."""

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
from app.auth.records import BrowserSession
from app.db import Database
from app.errors import Unauthenticated
from app.principal import Principal

LIFETIME = timedelta(days=7)
"""Counted from the sign-in; being used does not prolong it."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


class SessionEnded(Unauthenticated):
    """The session has ended, or its API key was revoked: sign in again."""


@dataclass(frozen=True, slots=True)
class OpenedSession:
    """A session as its browser gets it; `token` is returned only here."""

    token: str
    session: BrowserSession


class BrowserSessions:
    """Lets browsers in with an API key that they need not keep.

    A session can do what its key can, for as long as the key can. Guessing is pointless for both:
    each is 256 random bits, kept as a hash.
    """

    def __init__(self, database: Database, accounts: Accounts) -> None:
        self._database = database
        self._accounts = accounts

    async def open(self, api_key: str) -> OpenedSession:
        """A new session of this API key; raises `Unauthenticated`."""
        caller = await self._accounts.authenticate(api_key)
        token = secrets.token_urlsafe(32)
        async with self._database.transaction() as tx:
            await delete_expired(tx)
            await insert_session(tx, _hash(token), caller.api_key_id, lifetime=LIFETIME)
            session = await find_active_session(tx, _hash(token))
        if session is None:
            # The key was revoked at this moment.
            raise Unauthenticated
        return OpenedSession(token, session)

    async def authenticate(self, token: str) -> Principal:
        """Whoever signed in; raises `SessionEnded`, the same for every reason."""
        session = await self.find(token)
        return Principal(session.account_id, session.api_key_id, frozenset(session.scopes), _hash(token))

    async def find(self, token: str) -> BrowserSession:
        """The session this token opens; raises `SessionEnded`."""
        if not _TOKEN.fullmatch(token):
            raise SessionEnded
        async with self._database.snapshot() as reader:
            session = await find_active_session(reader, _hash(token))
        if session is None:
            raise SessionEnded
        return session

    async def close(self, token: str) -> None:
        """End a session; one that is over stays over."""
        async with self._database.transaction() as tx:
            await delete_session(tx, _hash(token))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
