"""WarmPool: CLI processes started ahead of time, so that no run waits for a second of start-up."""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import TypeAlias

import structlog

from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.tools.mcp_bridge import McpBridge
from app.executors.claude_agent.tools.sdk_hooks import SdkHooks
from app.executors.port import RunPlan
from app.gateway.proxy import ChannelAddress

log = structlog.get_logger(__name__)

MAX_AGE_S = 600.0
"""How long a process may wait for a run."""


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """Everything about a CLI that cannot change after its start; equal specs start equal processes."""

    system_prompt: str
    model: Hashable
    """The model's id and options."""
    tools: tuple[str, ...]
    longest_call_s: float
    max_turns: int | None

    @classmethod
    def of(cls, plan: RunPlan, system_prompt: str, *, longest_call_s: float) -> "LaunchSpec":
        """The spec for a run without a conversation."""
        return cls(
            system_prompt=system_prompt,
            model=(plan.model, plan.options),
            tools=tuple(tool.id for tool in plan.tools),
            longest_call_s=longest_call_s,
            max_turns=plan.limits.max_turns,
        )


@dataclass(frozen=True, slots=True, eq=False)
class WarmCli:
    """A started process that has got no prompt yet, and the objects it was started with."""

    process: CliProcess
    bridge: McpBridge
    hooks: SdkHooks
    address: ChannelAddress
    """Its base URL and token; they work once a run opens its channel at this address."""
    started_at: float

    @property
    def usable(self) -> bool:
        """Whether a run can use it."""
        young = asyncio.get_running_loop().time() - self.started_at < MAX_AGE_S
        return young and self.process.alive


StartCli: TypeAlias = Callable[[RunPlan, str], Awaitable[WarmCli]]
"""Starts a process, given the plan and the system prompt of a run with the same launch spec."""


class WarmPool:
    """Keeps idle processes for the launch specs that were requested last."""

    def __init__(self, size: int, start: StartCli) -> None:
        self._size = size
        self._start = start
        self._idle: list[tuple[LaunchSpec, WarmCli]] = []
        self._starting: set[asyncio.Task[None]] = set()
        self._closed = False

    def take(self, spec: LaunchSpec) -> WarmCli | None:
        """A process started with this spec; None if none is idle."""
        for entry in self._idle:
            known, cli = entry
            if known == spec:
                self._idle.remove(entry)
                if cli.usable:
                    return cli
                cli.process.discard()
                return self.take(spec)
        return None

    def refill(self, spec: LaunchSpec, plan: RunPlan) -> None:
        """Start another process with this spec; if the pool is full, in place of the oldest other one."""
        if self._closed or self._size == 0:
            return
        if len(self._idle) + len(self._starting) >= self._size:
            others = [entry for entry in self._idle if entry[0] != spec]
            if not others:
                return
            self._idle.remove(others[0])
            others[0][1].process.discard()
        # A fresh context: the process and its tool calls outlive the run that causes this, and would log
        # under its id.
        starting = asyncio.create_task(self._add(spec, plan), context=contextvars.Context())
        self._starting.add(starting)
        starting.add_done_callback(self._starting.discard)

    async def aclose(self) -> None:
        """End every idle process."""
        self._closed = True
        for starting in list(self._starting):
            await asyncio.wait({starting})
        for _, cli in self._idle:
            cli.process.discard()
        self._idle.clear()

    async def _add(self, spec: LaunchSpec, plan: RunPlan) -> None:
        try:
            cli = await self._start(plan, spec.system_prompt)
        except OSError as error:
            # If the problem persists, the next run fails with it.
            log.warning("cli.prewarm_failed", reason=error.strerror)
            return
        self._idle.append((spec, cli))
