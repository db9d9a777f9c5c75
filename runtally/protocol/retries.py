"""Retries: after which failures a request is repeated, and when."""

import random
from http import HTTPStatus

import httpx

from runtally.errors import ApiError, ConnectionFailed, InvalidResponse, RuntallyError
from runtally.protocol.connection import Connection

_FIRST_DELAY_S = 0.25
_LONGEST_DELAY_S = 8.0
_LONGEST_RETRY_AFTER_S = 60.0
"""A server that names a longer time is not waited for: its error is raised."""

_REFUSED = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
"""The server has not begun with the request."""

_OF_PROXIES = {HTTPStatus.BAD_GATEWAY, HTTPStatus.GATEWAY_TIMEOUT}
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_NEVER = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class Retries:
    """The failures of one request in a row."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._failures = 0
        self._base_s = _FIRST_DELAY_S

    def reset(self) -> None:
        """There was progress: the next failure is the first one again."""
        self._failures = 0

    def set_base(self, milliseconds: int) -> None:
        """Use the `retry:` of an event stream as the first delay."""
        self._base_s = min(milliseconds / 1000, _LONGEST_DELAY_S)

    def delay_after(self, error: Exception, *, repeatable: bool = True, streaming: bool = False) -> float:
        """The seconds to wait before the request is repeated; raises the client's error if it must not be.

        `repeatable`: whether the server may get the request twice. `streaming`: whether an invalid response
        is one more lost connection.
        """
        failure = self._explained(error)
        self._failures += 1
        if self._failures > self._connection.max_retries or not _may_repeat(
            error, repeatable=repeatable, streaming=streaming
        ):
            raise failure from error
        delay_s = min(self._base_s * 2.0 ** (self._failures - 1), _LONGEST_DELAY_S)
        # Spread, so that the clients of a server that is back do not all come at once.
        delay_s *= random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
        if isinstance(error, ApiError) and error.retry_after_s is not None:
            if error.retry_after_s > _LONGEST_RETRY_AFTER_S:
                raise failure from error
            delay_s += error.retry_after_s
        return delay_s

    def _explained(self, error: Exception) -> RuntallyError:
        if isinstance(error, RuntallyError):
            return error
        url = self._connection.url
        if isinstance(error, httpx.DecodingError):
            return InvalidResponse(f"The response of {url} is not encoded as its headers announce.")
        if isinstance(error, _NOT_SENT):
            return ConnectionFailed(
                f"No server can be reached at {url} ({_reason(error)}). Is RUNTALLY_URL right, and does "
                "`runtally serve` run there?"
            )
        return ConnectionFailed(f"The connection to {url} was lost ({_reason(error)}).")


def _may_repeat(error: Exception, *, repeatable: bool, streaming: bool) -> bool:
    if isinstance(error, ApiError):
        by_proxy = error.status in _OF_PROXIES and not error.code
        return error.status in _REFUSED or (by_proxy and repeatable)
    if isinstance(error, RuntallyError):
        return streaming
    if isinstance(error, httpx.TransportError) and not isinstance(error, _NEVER):
        return repeatable or isinstance(error, _NOT_SENT)
    return False


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
