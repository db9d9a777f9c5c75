"""RelayConnection: commands to the relay, with one log line for each outage."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha1
from typing import Any
from uuid import uuid4

from redis.asyncio import BlockingConnectionPool, Redis
from redis.exceptions import MovedError, NoScriptError, ReadOnlyError, RedisError

from app.errors import Unavailable
from app.platform.logs.dependency import DependencyLog
from app.streams.relay.address import problem_of
from app.streams.relay.scripts import APPEND, READ

PREFIX = "runtally:"
"""Of all keys and channels."""
_CONNECTIONS = 16
_PROBE_LIFETIME_S = 5
_SHA = {script: sha1(script.encode(), usedforsecurity=False).hexdigest() for script in (APPEND, READ)}


class EventLogUnavailable(Unavailable):
    """The event log cannot be reached; try again later."""

    is_logged = True


class Outage:
    """Logs the begin and the end of an outage once, whichever part notices it first and last."""

    def __init__(self) -> None:
        self._failing: dict[str, Exception] = {}
        self._log = DependencyLog(unavailable="event_log.unavailable", available="event_log.available")

    @property
    def error(self) -> Exception | None:
        """What has failed last, of all that fails; None if nothing does."""
        return next(reversed(self._failing.values()), None)

    def failed(self, part: str, error: Exception) -> None:
        """This part of the work fails now."""
        cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
        # The error's text may quote the address or an event.
        self._log.failed(type(cause).__name__, problem=problem_of(cause))
        self._failing.pop(part, None)
        self._failing[part] = cause

    def succeeded(self, part: str) -> None:
        if self._failing.pop(part, None) is not None and not self._failing:
            self._log.worked()


class RelayConnection:
    """Sends commands to the relay, or to the node of a part of it; raises `EventLogUnavailable`.

    No command is repeated that may have had an effect, as one whose response was lost.
    """

    def __init__(self, options: dict[str, Any], outage: Outage, *, tag: str, timeout_s: float) -> None:
        """`options`: of its connections; `tag`: the hash tag of the part."""
        self.prefix = f"{PREFIX}{{{tag}}}:" if tag else PREFIX
        """Of its keys and channels: those with the same tag are on the same node of a cluster."""
        self.claims = f"{self.prefix}claims"
        """The channel of the streams of runs that are resumed."""
        self.timeout_s = timeout_s
        self._outage = outage
        self._pool = BlockingConnectionPool(**options, max_connections=_CONNECTIONS, timeout=timeout_s)
        self._redis = Redis.from_pool(self._pool)
        self._execute_command: Callable[..., Awaitable[Any]] = self._redis.execute_command
        # In a cluster by way of one node: the loss of a connection is noticed, that between two nodes is not.
        sharded = "S" if tag else ""
        self.publishes = f"{sharded}PUBLISH"
        self.subscribes = f"{sharded}SUBSCRIBE"
        self.unsubscribes = f"{sharded}UNSUBSCRIBE"

    def failed(self, part: str, error: Exception) -> None:
        """This part of the work fails now."""
        self._outage.failed(f"{self.prefix}{part}", error)

    def succeeded(self, part: str) -> None:
        self._outage.succeeded(f"{self.prefix}{part}")

    async def append(self, keys: Sequence[str], arguments: Sequence[str | bytes | int]) -> list[Any]:
        """Execute `APPEND`, with the arguments for each run."""
        own = (uuid4().hex, self.publishes, self.claims)
        return await self._execute(APPEND, [f"{self.prefix}epoch", *keys], [*own, *arguments])

    async def read(self, keys: Sequence[str], arguments: Sequence[str]) -> list[Any]:
        """Execute `READ`."""
        return await self._execute(READ, keys, arguments)

    async def publish(self, channel: str, message: bytes) -> int:
        receivers: int = await self._send(self.publishes, channel, message)
        return receivers

    async def store(self, key: str, value: bytes, *, expires_s: int) -> None:
        await self._send("SET", key, value, "EX", expires_s)

    async def load(self, key: str) -> bytes | None:
        """A stored value; None if there is none."""
        value: Any = await self._send("GET", key)
        return None if value is None else bytes(value)

    async def delete(self, keys: Sequence[str]) -> None:
        await self._send("DEL", *keys)

    async def ping(self) -> None:
        """Succeed if the relay answers."""
        await self._send("PING")

    async def try_commands(self) -> None:
        """Send once what is sent later, for the start to fail rather than a run."""
        await self.ping()
        stream = f"{self.prefix}probe:{uuid4().hex}"
        await self.append([stream], [0, 0, "probe", "1-0", b"+1", _PROBE_LIFETIME_S, b""])
        await self.read([stream], ["1-0"])
        await self.store(stream, b"", expires_s=_PROBE_LIFETIME_S)
        await self.load(stream)
        await self.delete([stream])

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def _execute(self, script: str, keys: Sequence[str], arguments: Sequence[Any]) -> list[Any]:
        parts = (len(keys), *keys, *arguments)
        try:
            answer: list[Any] = await self._send("EVALSHA", _SHA[script], *parts)
        except EventLogUnavailable as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
            # Not SCRIPT LOAD: some services forbid it.
            answer = await self._send("EVAL", script, *parts)
        return answer

    async def _send(self, *command: str | bytes | int) -> Any:
        try:
            async with asyncio.timeout(self.timeout_s):
                try:
                    return await self._execute_command(*command)
                except (MovedError, ReadOnlyError):
                    # Nothing was executed: new connections lead to the node that serves it now.
                    await self._pool.disconnect(inuse_connections=False)
                    return await self._execute_command(*command)
        except (RedisError, OSError) as error:
            # `TimeoutError` is an `OSError`.
            raise EventLogUnavailable from error
