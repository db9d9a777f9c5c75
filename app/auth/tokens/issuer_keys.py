"""IssuerKeys: the public keys and the OpenID configurations of issuers, fetched when needed and kept."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import httpx2
import structlog

from app.auth.tokens.answers import FAILURES, IssuerReader, Unusable, named_url, why
from app.errors import Unavailable
from app.platform.clock.clock import host_time
from app.platform.issuers.tokens import Issuer
from app.platform.network import DIRECT, Network

log = structlog.get_logger(__name__)

Jwk = Mapping[str, Any]

FETCH_S: Final = 5.0
"""For all requests of a fetch."""
FETCH_INTERVAL_S: Final = 10.0
"""The shortest time between two fetches for an issuer, whatever tokens arrive and however the first ends."""
FRESH_S: Final = 300.0
"""How long a key is used that its issuer may have withdrawn."""
KEPT_S: Final = 3600.0
"""The same while the issuer cannot be reached."""


class IssuerUnavailable(Unavailable):
    """The keys that check this token are not available now; try again later."""

    code = "issuer_unavailable"


@dataclass(slots=True)
class _Known:
    """What is known of one issuer."""

    keys: Mapping[str, Jwk] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    fetched_at: float | None = None
    tried_at: float | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def has(self, key_id: str | None) -> bool:
        """Whether this key is known; None: what else an issuer says."""
        return key_id is None or key_id in self.keys

    def is_younger(self, age_s: float, now: float) -> bool:
        return self.fetched_at is not None and now - self.fetched_at < age_s


class IssuerKeys(IssuerReader):
    """Fetches and keeps the keys of all issuers."""

    def __init__(
        self,
        network: Network = DIRECT,
        *,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = host_time,
    ) -> None:
        """`now` is the time by which their tokens are valid."""
        super().__init__(httpx2.Timeout(FETCH_S), network=network)
        self._clock = clock
        self.now = now
        self._known: defaultdict[Hashable, _Known] = defaultdict(_Known)

    async def find(self, issuer: Issuer, key_id: str) -> Jwk | None:
        """The issuer's key with this id; None if it has none. Raises `IssuerUnavailable`."""
        return (await self._up_to_date(issuer, key_id)).keys.get(key_id)

    async def find_only(self, issuer: Issuer) -> Jwk | None:
        """The key of an issuer that has one; None if it has others. Raises `IssuerUnavailable`."""
        found = list((await self._up_to_date(issuer, None)).keys.values())
        return found[0] if len(found) == 1 else None

    async def configuration(self, issuer: Issuer) -> Mapping[str, Any]:
        """The OpenID configuration of an issuer without `jwks_url`. Raises `IssuerUnavailable`."""
        return (await self._up_to_date(issuer, None)).configuration

    async def fetch(self, issuer: Issuer) -> str | None:
        """Fetch what an issuer says now; returns why that fails, for the operator."""
        known = self._known[issuer.issuer, issuer.jwks_url]
        known.tried_at = self._clock()
        try:
            async with asyncio.timeout(FETCH_S):
                configuration = {} if issuer.jwks_url else await self._discover(issuer)
                known.keys = await self._keys_of(issuer, configuration)
        except FAILURES as error:
            return why(error)
        known.configuration, known.fetched_at = configuration, self._clock()
        return None

    async def _up_to_date(self, issuer: Issuer, key_id: str | None) -> _Known:
        known = self._known[issuer.issuer, issuer.jwks_url]
        # While another request fetches, a known key is used as it is.
        is_fetched_elsewhere = known.lock.locked() and known.has(key_id)
        if not self._suffices(known, key_id) and not is_fetched_elsewhere:
            async with known.lock:
                if not self._suffices(known, key_id) and (reason := await self.fetch(issuer)) is not None:
                    log.warning("issuer.keys_not_fetched", issuer=issuer.issuer, reason=reason)
        if not known.is_younger(KEPT_S, self._clock()):
            raise IssuerUnavailable(retry_after_s=int(FETCH_INTERVAL_S))
        return known

    def _suffices(self, known: _Known, key_id: str | None) -> bool:
        """Whether no fetch is due."""
        now = self._clock()
        if known.tried_at is not None and now - known.tried_at < FETCH_INTERVAL_S:
            return True
        return known.has(key_id) and known.is_younger(FRESH_S, now)

    async def _keys_of(self, issuer: Issuer, configuration: Mapping[str, Any]) -> Mapping[str, Jwk]:
        url = issuer.jwks_url or named_url(configuration, "jwks_uri", issuer)
        keys = (await self._read(httpx2.Request("GET", url))).get("keys")
        if not isinstance(keys, list):
            raise Unusable("the answer has no keys")
        signing = (key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig")
        return {key["kid"]: key for key in signing if isinstance(key.get("kid"), str)}

    async def _discover(self, issuer: Issuer) -> Mapping[str, Any]:
        found = await self._read(httpx2.Request("GET", issuer.discovery_url))
        if found.get("issuer") != issuer.issuer:
            raise Unusable("the OpenID configuration is that of another issuer")
        return found
