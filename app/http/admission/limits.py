"""What callers may use up of this server: kept on the app, one of each for all requests."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fastapi import Request

from app.errors import TooMany
from app.http.admission.bodies import BodyReader
from app.http.admission.readers import Readers
from app.http.admission.token_buckets import TokenBuckets
from app.ids import ApiKeyId

_MINUTE_S: Final = 60
_MAX_KNOWN_KEYS: Final = 10_000


class TooManyWrites(TooMany):
    """This API key changes too much at once; try again later."""


class TooManyFailures(TooMany):
    """Too many unknown API keys came from this address; try again later."""

    code = "too_many_failures"


class FailedKeys:
    """Counts unknown API keys by address, so that guessing costs us no look at the database.

    A key that was good a moment ago is looked at in any case: who shares an address with a guesser
    is not locked out.
    """

    def __init__(self, *, per_minute: int, is_proxy: Callable[[str], bool]) -> None:
        self._buckets = TokenBuckets(per_s=per_minute / _MINUTE_S, burst=per_minute)
        self._is_proxy = is_proxy
        self._good: OrderedDict[bytes, None] = OrderedDict()

    def require_room(self, address: str | None, key_hash: bytes) -> None:
        """Raise `TooManyFailures` where an address has presented too many unknown keys."""
        if key_hash in self._good or self._is_exempt(address):
            return
        if (wait_s := self._buckets.wait_s(address)) > 0:
            raise TooManyFailures(retry_after_s=_whole(wait_s))

    def note(self, address: str | None, key_hash: bytes, *, good: bool) -> None:
        """Remember what became of a key."""
        if good:
            self._good[key_hash] = None
            self._good.move_to_end(key_hash)
            while len(self._good) > _MAX_KNOWN_KEYS:
                self._good.popitem(last=False)
            return
        self._good.pop(key_hash, None)
        if not self._is_exempt(address):
            self._buckets.take(address)

    def _is_exempt(self, address: str | None) -> bool:
        # A proxy that does not say for whom it asks would lock out everybody behind it.
        return address is None or self._is_proxy(address)


@dataclass(frozen=True, slots=True)
class Limits:
    """Everything that is counted over requests."""

    bodies: BodyReader
    readers: Readers
    writes: TokenBuckets
    failed_keys: FailedKeys

    def take_write(self, key: ApiKeyId) -> None:
        """Count a request that changes something; raises `TooManyWrites`."""
        if (wait_s := self.writes.take(key)) > 0:
            raise TooManyWrites(retry_after_s=_whole(wait_s))


def limits_of(request: Request) -> Limits:
    """The limits of the app that has this request."""
    found: Limits = request.app.state.limits
    return found


def _whole(seconds: float) -> int:
    return max(1, round(seconds + 0.5))
