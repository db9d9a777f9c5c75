"""CredentialMonitor: what was opened with an API key or a session ends when that is revoked."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
import structlog

from app.auth.records import Credential
from app.errors import Unauthenticated, Unavailable
from app.principal import Principal

log = structlog.get_logger(__name__)

CHECK_INTERVAL_S = 0.4
"""How often credentials with open streams are looked up: revoking one shows within a second."""


class CredentialRevoked(Unauthenticated):
    """The API key was revoked, or the session has ended, while this was open."""


class CredentialMonitor:
    """Looks up the credentials behind everything that is open here, all in one query.

    While the database is away nothing is ended.
    """

    def __init__(
        self,
        find_valid: Callable[[set[Credential]], Awaitable[set[Credential]]],
        *,
        interval_s: float = CHECK_INTERVAL_S,
    ) -> None:
        """`find_valid` gives those of these credentials that are valid; it may raise `Unavailable`."""
        self._find_valid = find_valid
        self._interval_s = interval_s
        self._open: defaultdict[Credential, set[anyio.CancelScope]] = defaultdict(set)
        self._any_open = asyncio.Event()

    @contextmanager
    def while_valid(self, principal: Principal) -> Iterator[None]:
        """Cancel the body when the principal's credential is revoked; raises `CredentialRevoked` then."""
        credential = Credential(principal.api_key_id, principal.session_hash)
        with anyio.CancelScope() as scope:
            self._open[credential].add(scope)
            self._any_open.set()
            try:
                yield
            finally:
                self._remove(credential, scope)
        if scope.cancelled_caught:
            raise CredentialRevoked

    async def watch(self) -> None:
        """End what is revoked, until cancelled; asks nothing while nothing is open."""
        while True:
            await self._any_open.wait()
            await asyncio.sleep(self._interval_s)
            try:
                await self.check()
            except Unavailable as error:
                log.warning("credentials.check_failed", reason=error.detail)

    async def check(self) -> None:
        """End what is revoked now; raises `Unavailable`."""
        credentials = set(self._open)
        if not credentials:
            return
        valid = await self._find_valid(credentials)
        for credential in credentials - valid:
            scopes = self._open.get(credential, set())
            log.info("credentials.revoked", key_id=str(credential.api_key_id), streams=len(scopes))
            for scope in scopes:
                scope.cancel()

    def _remove(self, credential: Credential, scope: anyio.CancelScope) -> None:
        self._open[credential].discard(scope)
        if not self._open[credential]:
            del self._open[credential]
        if not self._open:
            self._any_open.clear()
