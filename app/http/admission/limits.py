"""RefillRate and concurrency limits over requests; one instance of each, kept on the app."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from fastapi import Request

from app.errors import TooMany
from app.http.admission.bodies import BodyReader
from app.http.admission.reader_limit import ReaderLimit
from app.http.admission.token_buckets import RefillRate, TokenBuckets
from app.requests.principal import Principal

_MINUTE_S: Final = 60
_MAX_KNOWN_KEYS: Final = 10_000
_SHARED_READS: Final = RefillRate(per_s=5, burst=300)
"""Pages of 200 lines: a conversation is read whole by several people."""

_LOGINS: Final = RefillRate(per_s=0.05, burst=30)
_CODES: Final = RefillRate(per_s=0.1, burst=10)
"""A code has 20⁸ values, and is valid for ten minutes."""


class TooManyWrites(TooMany):
    """This API key is sending too many write requests; try again later."""


class TooManyRequests(TooMany):
    """This API key, or one that it was made with, has sent all its requests of a minute; try again later."""


class TooManySharedReads(TooMany):
    """This link was read too often in the last minute; try again later."""


class TooManyLogins(TooMany):
    """Too many logins were begun from this address; try again in some minutes."""

    code = "too_many_logins"


class TooManyCodes(TooMany):
    """Too many codes of logins were entered; try again later."""


class TooManyFailures(TooMany):
    """Too many unknown API keys came from this address; try again later."""

    code = "too_many_failures"


class FailedKeyLimit:
    """Limits failed authentications by address, so that guessing keys causes no database queries.

    A key that was valid a moment ago is always checked: clients that share an address with an attacker
    are not locked out.
    """

    def __init__(self, *, per_minute: int, is_proxy: Callable[[str], bool]) -> None:
        self._buckets = TokenBuckets(per_s=per_minute / _MINUTE_S, burst=per_minute)
        self._is_proxy = is_proxy
        self._valid_keys: OrderedDict[bytes, None] = OrderedDict()

    def check(self, address: str | None, key_hash: bytes) -> None:
        """Raise `TooManyFailures` for an address that has sent too many unknown keys."""
        if key_hash in self._valid_keys or self._is_exempt(address):
            return
        _require_none(self._buckets.wait_s(address), TooManyFailures)

    def record(self, address: str | None, key_hash: bytes, *, valid: bool) -> None:
        if valid:
            self._valid_keys[key_hash] = None
            self._valid_keys.move_to_end(key_hash)
            while len(self._valid_keys) > _MAX_KNOWN_KEYS:
                self._valid_keys.popitem(last=False)
            return
        self._valid_keys.pop(key_hash, None)
        if not self._is_exempt(address):
            self._buckets.take(address)

    def _is_exempt(self, address: str | None) -> bool:
        # A proxy that does not forward client addresses would lock out everybody behind it.
        return address is None or self._is_proxy(address)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """All limits that count over requests."""

    bodies: BodyReader
    readers: ReaderLimit
    writes: TokenBuckets
    requests: TokenBuckets
    """Of keys with a limit, each with its own rate, and of share links; of this process."""
    failed_keys: FailedKeyLimit

    def count_request(self, caller: Principal) -> None:
        """Count a request of a key with a limit; raises `TooManyRequests`."""
        for limit in caller.terms.limits:
            if (most := limit.requests_per_minute) is not None:
                rate = RefillRate(most / _MINUTE_S, most)
                _require_none(self.requests.take(limit.of, rate=rate), TooManyRequests)

    def count_shared_read(self, share_id: UUID) -> None:
        """Count a request with a share link; raises `TooManySharedReads`."""
        _require_none(self.requests.take(share_id, rate=_SHARED_READS), TooManySharedReads)

    def count_login(self, address: str | None) -> None:
        """Count a login that is begun; raises `TooManyLogins`."""
        _require_none(self.requests.take(("login", address), rate=_LOGINS), TooManyLogins)

    def count_code(self, caller: Principal) -> None:
        """Count a code of a login that is entered; raises `TooManyCodes`."""
        _require_none(self.requests.take(("code", caller.rated_as), rate=_CODES), TooManyCodes)

    def count_write(self, key: Hashable) -> None:
        """Count a request with an unsafe method; raises `TooManyWrites`."""
        _require_none(self.writes.take(key), TooManyWrites)


def request_limits(request: Request) -> RequestLimits:
    found: RequestLimits = request.app.state.limits
    return found


def _require_none(wait_s: float, too_many: type[TooMany]) -> None:
    """Raise this unless there is nothing to wait for."""
    if wait_s > 0:
        raise too_many(retry_after_s=max(1, round(wait_s + 0.5)))
