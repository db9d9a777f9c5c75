"""CLI processes started before anybody needs them: a second of start-up that no run waits for."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass

import structlog

from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.tools.hooks import FailureCount, Hooks
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.port import RunContext
from app.gateway.proxy import Address

log = structlog.get_logger(__name__)

MOST_AGE_S = 600.0
"""How long a process may wait for a run: one that nobody wanted for so long has grown stale."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything a CLI is started with and cannot be told afterwards: equal for equal processes."""

    system_prompt: str
    model: Hashable
    """The model's id and how it is asked."""
    tools: tuple[str, ...]
    longest_call_s: float
    max_turns: int | None

    @classmethod
    def of(cls, context: RunContext, system_prompt: str, *, longest_call_s: float) -> "LaunchSpec":
        """What a run that stands alone needs."""
        return cls(
            system_prompt=system_prompt,
            model=(context.model, context.options),
            tools=tuple(tool.id for tool in context.tools),
            longest_call_s=longest_call_s,
            max_turns=context.limits.max_turns,
        )


@dataclass(frozen=True, slots=True, eq=False)
class WarmCli:
    """A process that waits for its first word, and what it was started with."""

    process: CliProcess
    bridge: McpBridge
    hooks: Hooks
    failures: FailureCount
    """Of the hooks' observers, the one that counts."""
    address: Address
    """Where it takes the Messages API to be; nothing is there before a run opens its lane."""
    since: float

    @property
    def usable(self) -> bool:
        """Whether a run can have it."""
        young = asyncio.get_running_loop().time() - self.since < MOST_AGE_S
        return young and self.process.alive


Start = Callable[[RunContext, str], Awaitable[WarmCli]]


class WarmPool:
    """Keeps processes ready for what was asked for last."""

    def __init__(self, size: int, start: Start) -> None:
        """`start` is given a run like those to come, and their system prompt."""
        self._size = size
        self._start = start
        self._ready: list[tuple[LaunchSpec, WarmCli]] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._closed = False

    def take(self, blueprint: LaunchSpec) -> WarmCli | None:
        """A process for this; None where none is ready."""
        for entry in self._ready:
            known, cli = entry
            if known == blueprint:
                self._ready.remove(entry)
                if cli.usable:
                    return cli
                cli.process.retire()
                return self.take(blueprint)
        return None

    def refill(self, blueprint: LaunchSpec, context: RunContext) -> None:
        """Start another one for this, in place of one that was wanted longest ago."""
        if self._closed or self._size == 0:
            return
        if len(self._ready) + len(self._starting) >= self._size:
            others = [entry for entry in self._ready if entry[0] != blueprint]
            if not others:
                return
            self._ready.remove(others[0])
            others[0][1].process.retire()
        starting = asyncio.create_task(self._add(blueprint, context))
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)

    async def aclose(self) -> None:
        """Let all of them go."""
        self._closed = True
        for starting in list(self._starting):
            await asyncio.wait({starting})
        for _, cli in self._ready:
            cli.process.retire()
        self._ready.clear()

    async def _add(self, blueprint: LaunchSpec, context: RunContext) -> None:
        try:
            cli = await self._start(context, blueprint.system_prompt)
        except OSError as error:
            # Runs will say so themselves, should it last.
            log.warning("no CLI could be started ahead of time", reason=error.strerror)
            return
        self._ready.append((blueprint, cli))
