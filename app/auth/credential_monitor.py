"""CredentialMonitor: ends streams whose API key or browser session is revoked, or whose token expires."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import datetime

import anyio
import structlog

from app.auth.records import Credential
from app.errors import Unauthenticated
from app.ids import ApiKeyId
from app.platform.background import forever
from app.platform.clock.clock import host_time
from app.requests.principal import Principal

log = structlog.get_logger(__name__)

CHECK_INTERVAL_S = 0.4
"""How often the credentials of open streams are checked: a revocation takes effect within a second."""


class CredentialRevoked(Unauthenticated):
    """The API key was revoked, or the session or token ended, while the stream was open."""


class CredentialMonitor:
    """Checks the credentials of all open streams of this process in one query.

    Nothing is closed while the database is unavailable.
    """

    def __init__(
        self,
        find_valid: Callable[[set[Credential]], Awaitable[set[Credential]]],
        *,
        interval_s: float = CHECK_INTERVAL_S,
        now: Callable[[], datetime] = host_time,
    ) -> None:
        """`find_valid` returns the valid subset of credentials; it may raise `Unavailable`.

        `now` is the time by which tokens expire.
        """
        self._find_valid = find_valid
        self._interval_s = interval_s
        self._now = now
        self._open: defaultdict[Credential, set[anyio.CancelScope]] = defaultdict(set)
        self._any_open = asyncio.Event()

    @contextmanager
    def while_valid(self, principal: Principal) -> Iterator[None]:
        """Cancel the body when the principal's credential is revoked, and raise `CredentialRevoked`.

        Also when a token expires, whose end is not in the database.
        """
        credential = Credential(principal.api_key_id, principal.session_hash)
        expires_at = None if principal.end_user is None else principal.terms.expires_at
        left_s = math.inf if expires_at is None else (expires_at - self._now()).total_seconds()
        with anyio.CancelScope(deadline=anyio.current_time() + left_s) as scope:
            self._open[credential].add(scope)
            self._any_open.set()
            try:
                yield
            finally:
                self._remove(credential, scope)
        if scope.cancelled_caught:
            raise CredentialRevoked

    async def is_usable(self, key_id: ApiKeyId) -> bool:
        """Whether a key has not ended and its account is not suspended; raises `Unavailable`."""
        return bool(await self._find_valid({Credential(key_id, None)}))

    async def watch(self) -> None:
        """Check until cancelled; sends no query while nothing is open."""
        await forever(self._check_when_open, 0, name="credentials.check")

    async def check(self) -> None:
        """Cancel whatever was opened with a revoked credential; raises `Unavailable`."""
        credentials = set(self._open)
        if not credentials:
            return
        valid = await self._find_valid(credentials)
        for credential in credentials - valid:
            scopes = self._open.get(credential, set())
            log.info("credentials.revoked", key_id=str(credential.api_key_id), streams=len(scopes))
            for scope in scopes:
                scope.cancel()

    async def _check_when_open(self) -> None:
        await self._any_open.wait()
        await asyncio.sleep(self._interval_s)
        await self.check()

    def _remove(self, credential: Credential, scope: anyio.CancelScope) -> None:
        self._open[credential].discard(scope)
        if not self._open[credential]:
            del self._open[credential]
        if not self._open:
            self._any_open.clear()
