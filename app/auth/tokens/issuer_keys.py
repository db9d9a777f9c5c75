"""IssuerKeys: the public keys of issuers, fetched when they are needed and kept."""

import asyncio
import json
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import structlog

from app.errors import Unavailable
from app.platform.hops import reason_of
from app.platform.network import DIRECT, Network
from app.platform.outgoing import HttpSender
from app.platform.token_issuers import TokenIssuer

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
_MAX_BYTES: Final = 262_144


class IssuerUnavailable(Unavailable):
    """The keys that check this token are not available now; try again later."""

    code = "issuer_unavailable"


class _Unusable(Exception):
    """An answer that has no keys; the text is for the operator."""


@dataclass(slots=True)
class _Known:
    """What is known of one issuer."""

    keys: Mapping[str, Jwk] = field(default_factory=dict)
    fetched_at: float | None = None
    tried_at: float | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    def is_younger(self, age_s: float, now: float) -> bool:
        return self.fetched_at is not None and now - self.fetched_at < age_s


class IssuerKeys(HttpSender):
    """Fetches and keeps the keys of all issuers."""

    def __init__(self, network: Network = DIRECT, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(httpx2.Timeout(FETCH_S), network=network)
        self._clock = clock
        self._known: defaultdict[str, _Known] = defaultdict(_Known)

    async def find(self, issuer: TokenIssuer, key_id: str) -> Jwk | None:
        """The issuer's key with this id; None if it has none. Raises `IssuerUnavailable`."""
        known = self._known[issuer.issuer]
        # While another request fetches, a known key is used as it is.
        is_fetched_elsewhere = known.lock.locked() and key_id in known.keys
        if not self._suffices(known, key_id) and not is_fetched_elsewhere:
            async with known.lock:
                if not self._suffices(known, key_id):
                    await self._fetch_keys(issuer, known)
        if not known.is_younger(KEPT_S, self._clock()):
            raise IssuerUnavailable(retry_after_s=int(FETCH_INTERVAL_S))
        return known.keys.get(key_id)

    def _suffices(self, known: _Known, key_id: str) -> bool:
        """Whether no fetch is due."""
        now = self._clock()
        if known.tried_at is not None and now - known.tried_at < FETCH_INTERVAL_S:
            return True
        return key_id in known.keys and known.is_younger(FRESH_S, now)

    async def _fetch_keys(self, issuer: TokenIssuer, known: _Known) -> None:
        known.tried_at = self._clock()
        try:
            async with asyncio.timeout(FETCH_S):
                known.keys = await self._keys_of(issuer)
        except (_Unusable, httpx2.HTTPError, httpx2.InvalidURL, ValueError, TimeoutError) as error:
            reason = str(error) if isinstance(error, _Unusable) else reason_of(error)
            log.warning("issuer.keys_not_fetched", issuer=issuer.issuer, reason=reason)
        else:
            known.fetched_at = self._clock()

    async def _keys_of(self, issuer: TokenIssuer) -> Mapping[str, Jwk]:
        url = issuer.jwks_url or await self._discover(issuer)
        keys = (await self._get(url)).get("keys")
        if not isinstance(keys, list):
            raise _Unusable("the answer has no keys")
        signing = (key for key in keys if isinstance(key, dict) and key.get("use", "sig") == "sig")
        return {key["kid"]: key for key in signing if isinstance(key.get("kid"), str)}

    async def _discover(self, issuer: TokenIssuer) -> str:
        found = await self._get(issuer.discovery_url)
        if found.get("issuer") != issuer.issuer:
            raise _Unusable("the OpenID configuration is that of another issuer")
        url = found.get("jwks_uri")
        if not isinstance(url, str):
            raise _Unusable("the OpenID configuration has no jwks_uri")
        named, own = urlsplit(url), urlsplit(issuer.issuer)
        # An address that the operator has not named, and that may be one of this network.
        if named.scheme != "https" and named[:2] != own[:2]:
            raise _Unusable("the OpenID configuration names keys without https")
        return url

    async def _get(self, url: str) -> dict[str, Any]:
        headers = {"accept": "application/json", "user-agent": "runtally"}
        response = await self._fetch(httpx2.Request("GET", url, headers=headers), max_bytes=_MAX_BYTES)
        if not response.is_success:
            raise _Unusable(f"the answer has status {response.status_code}")
        try:
            content = json.loads(response.content)
        except (ValueError, RecursionError) as error:
            raise _Unusable("the answer is not JSON") from error
        if not isinstance(content, dict):
            raise _Unusable("the answer is not a JSON object")
        return content
