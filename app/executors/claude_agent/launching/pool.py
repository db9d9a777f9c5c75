"""CliPool: CLI processes that serve no run: ready ones, and parked ones of conversations."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog

from app.conversations.records import Conversation
from app.executors.claude_agent.launching.started_cli import LaunchSpec, StartedCli
from app.executors.port import RunPlan
from app.ids import ApiKeyId
from app.platform.logs.context import start_detached

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class ParkedCli:
    """The process of a conversation between two of its turns."""

    conversation: Conversation
    api_key_id: ApiKeyId
    """The key of its last run; the process ends when it is revoked."""
    cli: StartedCli

    def is_of(self, conversation: Conversation) -> bool:
        """Whether it has this account and state key; it may be a later conversation with the same key."""
        own = self.conversation
        return (own.account_id, own.state_key) == (conversation.account_id, conversation.state_key)


@dataclass(frozen=True, slots=True, eq=False)
class _IdleCli:
    cli: StartedCli
    parked: ParkedCli | None = None
    since: float = field(default_factory=lambda: asyncio.get_running_loop().time())


StartCli: TypeAlias = Callable[[LaunchSpec, RunPlan], Awaitable[StartedCli]]
"""Starts a process, given the plan of a run with this launch spec."""


class CliPool:
    """Keeps up to `size` idle processes; the one that was used least recently ends first."""

    def __init__(self, size: int, start: StartCli, *, max_idle_s: float) -> None:
        self._size = size
        self._start = start
        self._max_idle_s = max_idle_s
        self._idle: list[_IdleCli] = []
        """Least recently used first."""
        self._starting: dict[asyncio.Task[None], LaunchSpec] = {}
        self._closed = False

    @property
    def most_ready(self) -> int:
        """How many processes are started ahead of time; the others are for conversations."""
        return (self._size + 1) // 2

    def take(self, spec: LaunchSpec) -> StartedCli | None:
        """A process started with this spec that has got no prompt; None if none is ready."""
        self.end_expired()
        for idle in self._idle:
            if idle.parked is None and idle.cli.spec == spec:
                self._idle.remove(idle)
                return idle.cli
        return None

    def take_parked(self, conversation: Conversation) -> ParkedCli | None:
        """The process parked under this account and state key, whatever it was started with."""
        self.end_expired()
        for idle in self._idle:
            if idle.parked is not None and idle.parked.is_of(conversation):
                self._idle.remove(idle)
                return idle.parked
        return None

    def park(self, parked: ParkedCli) -> bool:
        """Keep a process until the conversation's next turn; False if it must end."""
        if self._closed or self._size == 0:
            return False
        if (before := self.take_parked(parked.conversation)) is not None:
            before.cli.process.discard()
        if len(self._idle) + len(self._starting) >= self._size:
            # If all others are being started, one of them ends when it is.
            self._end_oldest()
        self._idle.append(_IdleCli(parked.cli, parked))
        return True

    def refill(self, spec: LaunchSpec, plan: RunPlan) -> None:
        """Start another process with this spec; if the pool is full, in place of the oldest other one."""
        if self._closed or self._size == 0:
            return
        ready = [*(idle.cli.spec for idle in self._idle if idle.parked is None), *self._starting.values()]
        if ready.count(spec) >= self.most_ready:
            return
        is_full = len(self._idle) + len(self._starting) >= self._size
        if len(ready) >= self.most_ready:
            if not self._end_oldest(ready_besides=spec):
                return
        elif is_full and not self._end_oldest():
            return
        starting = start_detached(self._add(spec, plan))
        self._starting[starting] = spec
        starting.add_done_callback(self._starting.pop)

    @property
    def is_starting(self) -> bool:
        return bool(self._starting)

    def counts(self) -> dict[str, int]:
        """How many processes are `ready`, `parked` and `starting`."""
        parked = sum(idle.parked is not None for idle in self._idle)
        return {
            "ready": len(self._idle) - parked,
            "parked": parked,
            "starting": len(self._starting),
        }

    def parked(self) -> list[ParkedCli]:
        """The processes of conversations."""
        return [idle.parked for idle in self._idle if idle.parked is not None]

    def end_parked(self, parked: Collection[ParkedCli]) -> None:
        """End these processes, as far as they are still parked."""
        self._end([idle for idle in self._idle if idle.parked in parked])

    def end_expired(self) -> None:
        """End the processes that were idle for too long, and forget those that have died."""
        oldest = asyncio.get_running_loop().time() - self._max_idle_s
        self._end([idle for idle in self._idle if idle.since < oldest or not idle.cli.process.alive])

    async def aclose(self) -> None:
        self._closed = True
        for starting in list(self._starting):
            await asyncio.wait({starting})
        self._end(list(self._idle))

    def _end_oldest(self, *, ready_besides: LaunchSpec | None = None) -> bool:
        """End the process that was used least recently; False if all are being started.

        `ready_besides`: only one that is ready, and was not started with this spec.
        """
        for idle in self._idle:
            if ready_besides is None or (idle.parked is None and idle.cli.spec != ready_besides):
                self._end([idle])
                return True
        return False

    def _end(self, ending: Collection[_IdleCli]) -> None:
        for idle in ending:
            self._idle.remove(idle)
            idle.cli.process.discard()

    async def _add(self, spec: LaunchSpec, plan: RunPlan) -> None:
        try:
            cli = await self._start(spec, plan)
        except OSError as error:
            # If the problem persists, the next run fails with it.
            log.warning("cli.prewarm_failed", reason=error.strerror)
            return
        if len(self._idle) < self._size:
            self._idle.append(_IdleCli(cli))
        else:
            # Meanwhile a conversation's process has taken its place.
            cli.process.discard()
