"""RelayConnection: commands to the relay, with one log line for each outage."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self
from urllib.parse import urlsplit

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import AuthenticationError, RedisError
from redis.exceptions import ConnectionError as RedisConnectionError

from app.errors import OperatorError, Unavailable
from app.platform.logs.dependency import DependencyLog
from app.streams.relay.scripts import APPEND, READ

_CONNECTIONS = 16


class EventLogUnavailable(Unavailable):
    """The event log cannot be reached; try again later."""

    is_logged = True


class RelayNotUsable(OperatorError):
    """The relay of REDIS_URL cannot be used; the text names it, the reason and the next step."""

    @classmethod
    def of(cls, address: str, error: EventLogUnavailable) -> Self:
        """The error for a ping that failed."""
        cause = error.__cause__ or error
        text = f"{cause} {cause.__cause__ or ''}"
        match cause:
            case AuthenticationError():
                problem = "user or password are wrong, or missing; correct them"
            case TimeoutError():
                problem = "it does not answer in time; check host, port, firewall and whether it expects TLS"
            case _ if "SSL" in text or "certificate" in text:
                problem = "TLS with it failed; use rediss:// for a server with TLS, redis:// for one without"
            case _ if "Name or service not known" in text or "name resolution" in text:
                problem = "the host name cannot be resolved; correct it, or the name service of this machine"
            case RedisConnectionError() | OSError():
                problem = "nothing answers there; start Valkey or Redis, or correct host and port"
            case _:
                problem = f"it refuses commands ({type(cause).__name__}); correct the rights of the user"
        return cls(f"REDIS_URL ({address}): {problem}.")


def address_of(url: str) -> str:
    """Where the relay is, without user and password."""
    parts = urlsplit(url)
    return parts.path if parts.scheme == "unix" else f"{parts.hostname}:{parts.port or 6379}"


class Outage:
    """Logs the begin and the end of an outage once, whichever part notices it first and last."""

    def __init__(self) -> None:
        self._failing: set[str] = set()
        self._log = DependencyLog(unavailable="event_log.unavailable", available="event_log.available")

    def __bool__(self) -> bool:
        """Whether any part is failing."""
        return bool(self._failing)

    def failed(self, part: str, error: Exception) -> None:
        """This part of the work fails now."""
        # The error's text may quote the address or an event.
        self._log.failed(type(error.__cause__ or error).__name__)
        self._failing.add(part)

    def succeeded(self, part: str) -> None:
        """This part succeeds."""
        if part in self._failing:
            self._failing.remove(part)
            if not self._failing:
                self._log.worked()


class RelayConnection:
    """Sends commands to the relay; every method raises `EventLogUnavailable`.

    No command is repeated: one whose response was lost may have had an effect.
    """

    def __init__(self, url: str, *, timeout_s: float) -> None:
        """`timeout_s`: how long a response may take."""
        self.outage = Outage()
        self.address = address_of(url)
        self._timeout_s = timeout_s
        self._redis = Redis.from_pool(
            BlockingConnectionPool.from_url(
                url,
                max_connections=_CONNECTIONS,
                timeout=timeout_s,
                # `_reachable` limits each command. The client's own limit makes a task per command, and loses
                # cancellations (Python 3.11's `wait_for`).
                socket_timeout=None,
                socket_connect_timeout=None,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
            ),
        )
        self._append = self._redis.register_script(APPEND)
        self._read = self._redis.register_script(READ)

    async def append(self, keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> list[Any]:
        """Execute `APPEND`."""
        return await self._execute(self._append, keys, arguments)

    async def read(self, keys: Sequence[str], arguments: Sequence[str]) -> list[Any]:
        """Execute `READ`."""
        return await self._execute(self._read, keys, arguments)

    async def publish(self, channel: str, message: bytes) -> int:
        """Publish a message; returns how many connections received it."""
        async with self._reachable():
            receivers: int = await self._redis.publish(channel, message)
        return receivers

    async def store(self, key: str, value: bytes, *, expires_s: int) -> None:
        """Store a value until it expires."""
        async with self._reachable():
            await self._redis.set(key, value, ex=expires_s)

    async def load(self, key: str) -> bytes | None:
        """A stored value; None if there is none."""
        async with self._reachable():
            value: Any = await self._redis.get(key)
        return None if value is None else bytes(value)

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete stored values."""
        async with self._reachable():
            await self._redis.delete(*keys)

    async def ping(self) -> None:
        """Succeed if the relay answers."""
        async with self._reachable():
            await self._redis.ping()

    async def aclose(self) -> None:
        """Close all connections."""
        await self._redis.aclose()

    async def _execute(self, script: AsyncScript, keys: Sequence[str], arguments: Sequence[Any]) -> list[Any]:
        async with self._reachable():
            answer: list[Any] = await script(keys=keys, args=arguments)
        return answer

    @asynccontextmanager
    async def _reachable(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._timeout_s):
                yield
        except (RedisError, OSError) as error:
            # `TimeoutError` is an `OSError`.
            raise EventLogUnavailable from error
