"""CliProcess: one CLI process of one run, from its start to its cleanup.

One task owns the SDK client from connect to disconnect, because the SDK's cancel scopes belong to one
task. It drains the client's messages into a buffer without ever waiting: a hundred unread messages
would block even the SDK's interrupt. A CLI that sends messages faster than they are processed is killed.
"""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import anyio
import psutil
import structlog
from claude_agent_sdk import (
    ClaudeSDKClient,
    ClaudeSDKError,
    Message,
    MirrorErrorMessage,
    ResultMessage,
)
from claude_agent_sdk._internal.query import stamp_user_message

from app.concurrency.offload import SMALL_BYTES
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.message_buffer import MessageBuffer
from app.executors.claude_agent.process.pending_messages import PendingMessages
from app.executors.claude_agent.process.sanitizer import sanitize
from app.executors.claude_agent.sandbox.running_sandbox import RunningSandbox
from app.executors.inbox import RunEnded
from app.requests import Priority
from app.serialization.large_json import dumps
from app.serialization.storable import storable

log = structlog.get_logger(__name__)


UserContent: TypeAlias = str | list[dict[str, Any]]
"""The content of a user message: a text, or content blocks."""

INTERRUPT_GRACE_S = 2.0
"""How long an interrupted CLI may take to send its last numbers before it is killed."""

INTERRUPT_RETRY_S = 0.25
STDERR_LINES = 20
STDERR_CHARS = 1_000
"""Limit of a line of standard error; the rest is dropped."""


class CliFailed(Exception):
    """The CLI could not be started, died, or sent something that cannot be parsed."""


class StderrTail:
    """The last lines the CLI wrote to stderr; for the operator's log only."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=STDERR_LINES)

    def append(self, line: str) -> None:
        """Add a line; `ClaudeAgentOptions.stderr` takes this method."""
        self.lines.append(storable(line[:STDERR_CHARS]))


class CliProcess:
    """The CLI of one run."""

    def __init__(
        self,
        client: ClaudeSDKClient,
        directory: RunDirectory,
        *,
        stderr: StderrTail | None = None,
        reads_usage_baseline: bool = False,
        before_cleanup: Callable[[RunDirectory], Awaitable[None]] | None = None,
        sandbox: RunningSandbox | None = None,
        interrupt_grace_s: float = INTERRUPT_GRACE_S,
        interrupt_retry_s: float = INTERRUPT_RETRY_S,
    ) -> None:
        """`reads_usage_baseline`: get the CLI's usage totals before the first prompt.

        `before_cleanup` is called with the directory if the SDK could not store the transcript.
        `sandbox` is the sandbox the CLI is started in.
        """
        self.stderr = stderr or StderrTail()
        self._client = client
        self._directory = directory
        self._reads_usage_baseline = reads_usage_baseline
        self.usage_baseline: dict[str, Any] = {}
        """By model: the totals of its earlier runs, with which a resumed conversation starts."""
        self._before_cleanup = before_cleanup
        self._sandbox = sandbox
        self._interrupt_grace_s, self._interrupt_retry_s = interrupt_grace_s, interrupt_retry_s
        self._mirror_failed = False
        self.killed = False
        """Whether we killed it."""
        self.exited = asyncio.Event()
        """Set when the process has ended and its directory is removed."""
        self._buffer = MessageBuffer()
        self._pending = PendingMessages()
        self._outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._stopping = False
        self._prompted = asyncio.Event()
        self._turn_started = asyncio.Event()
        self._turn_ended = asyncio.Event()
        self.responded = asyncio.Event()
        """Set when it has sent its first message, or will send none."""
        self._finished = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None
        self._owner_runs = False

    def start(self) -> asyncio.Task[None]:
        """Start it; the caller must wait for the task, which ends when everything is cleaned up."""
        self._owner = asyncio.create_task(self._run())
        return self._owner

    @property
    def alive(self) -> bool:
        """Whether the process runs or is being started."""
        if self._finished.is_set():
            return False
        try:
            process = psutil.Process(int(self._directory.pid_file.read_text()))
            # A process that has ended exists until the event loop has read its exit code.
            return process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False
        except (FileNotFoundError, ValueError):
            # The launcher has not written it yet.
            return True

    def discard(self) -> None:
        """End a process that was never sent a prompt."""
        self._stopping = True
        # A task that is cancelled before its first step would clean up nothing.
        if self._owner is not None and self._owner_runs:
            self._owner.cancel()

    async def _run(self) -> None:
        """Connect, wait for a prompt, drain to the last result, disconnect, clean up."""
        self._owner_runs = True
        failure: Exception | None = None
        try:
            if not self._stopping:
                await self._converse()
        except Exception as error:  # noqa: BLE001 - `messages` raises it, whatever it is
            failure = error
        finally:
            self._stopping = True
            self.responded.set()
            self._turn_ended.set()
            self._finished.set()
            self._buffer.end(failure)
            with anyio.CancelScope(shield=True):
                try:
                    await self._disconnect()
                finally:
                    self.exited.set()

    def send(self, message_id: str, content: UserContent, *, priority: Priority | None = None) -> None:
        """Send the agent a user message, now or once it is connected; raises `RunEnded`."""
        if self._stopping:
            raise RunEnded
        self._pending.add(message_id)
        self._outbox.put_nowait(
            {
                "type": "user",
                "uuid": message_id,
                "message": {"role": "user", "content": content},
                "parent_tool_use_id": None,
                **({} if priority is None else {"priority": priority}),
            }
        )

    async def messages(self) -> AsyncIterator[Message]:
        """Every message of the CLI, up to its last result. Raises `CliFailed`."""
        try:
            async for message in self._buffer.messages():
                yield message
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise CliFailed(reason) from error

    @property
    def has_pending_turn(self) -> bool:
        """Whether there are messages that are not part of the current turn."""
        return self._pending.has_next_turn

    async def interrupt(self) -> None:
        """Stop the current turn; kill the CLI when that takes too long."""
        self._turn_ended.clear()
        await self._interrupt_until(self._turn_ended)

    async def stop(self) -> None:
        """Take no more messages, interrupt, wait for the last result; kill the CLI if that takes too long."""
        self._stopping = True
        await self._interrupt_until(self._finished)

    def kill(self) -> None:
        """Kill a process that has not finished; the rest of its output is lost."""
        if self._finished.is_set():
            return
        self.killed = True
        if not self._prompted.is_set():
            self.discard()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(self._directory.pid_file.read_text()), signal.SIGKILL)

    async def _converse(self) -> None:
        await self._client.connect()
        if self._stopping:
            return
        if self._sandbox is not None:
            pid = int(self._directory.pid_file.read_text())
            await asyncio.to_thread(self._sandbox.enter, pid)
            self._directory.use_config(self._sandbox.config)
        if self._reads_usage_baseline:
            self.usage_baseline = await self._read_usage()
        await self._send_next()
        self._prompted.set()
        sending = asyncio.create_task(self._send_rest())
        try:
            async for message in self._client.receive_messages():
                if self._process(sanitize(message)):
                    return
        finally:
            sending.cancel()

    def _process(self, message: Message) -> bool:
        """Update the state and buffer the message; returns whether it is the last one."""
        self.responded.set()
        self._pending.feed(message)
        if self._pending.any_turn_started:
            self._turn_started.set()
        self._mirror_failed |= isinstance(message, MirrorErrorMessage)
        if not self._buffer.put(message) and not self.killed:
            log.error("cli.buffer_full")
            self.kill()
        if not isinstance(message, ResultMessage):
            return False
        self._turn_ended.set()
        return self._stopping or not self._pending.any_pending

    async def _read_usage(self) -> dict[str, Any]:
        # The SDK has no public API for this; its version is pinned.
        query = self._client._query  # noqa: SLF001
        if query is None:
            raise CliFailed(CliFailed.__doc__)
        answer = await query._send_control_request({"subtype": "get_usage"})  # noqa: SLF001
        usage: dict[str, Any] = answer["session"]["model_usage"]
        return usage

    async def _send_rest(self) -> None:
        # A message with priority "now" would overtake a prompt that the CLI has not started.
        await self._turn_started.wait()
        # If the CLI has died, `messages` raises that.
        with contextlib.suppress(ClaudeSDKError):
            while True:
                await self._send_next()

    async def _send_next(self) -> None:
        message = stamp_user_message(await self._outbox.get(), verbatim_prompts=True)
        # ASCII: some line readers end a line at U+2028.
        serialize = partial(dumps, {**message, "session_id": "default"}, ascii_only=True)
        is_small = _size_of(message["message"]["content"]) <= SMALL_BYTES
        # The SDK's `query` does the same, but serializes large messages on the event loop, too.
        line = serialize() if is_small else await asyncio.to_thread(serialize)
        transport = self._client._transport  # noqa: SLF001 - its version is pinned
        if transport is None:
            raise CliFailed(CliFailed.__doc__)
        await transport.write(f"{line}\n")

    async def _interrupt_until(self, ended: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._interrupt_grace_s):
                while not ended.is_set():
                    in_turn = self._pending.in_turn
                    if self._prompted.is_set():
                        await self._client.interrupt()
                    if in_turn:
                        # Once only: a second one could arrive late and abort the next message's turn.
                        await ended.wait()
                        return
                    # The CLI was idle, and ignored an interrupt that overtook the prompt: repeat it.
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(ended.wait(), self._interrupt_retry_s)
        except (TimeoutError, ClaudeSDKError) as error:
            log.warning("cli.interrupt_failed", error=type(error).__name__)
            self.kill()

    async def _disconnect(self) -> None:
        try:
            await self._client.disconnect()
        except ClaudeSDKError as error:
            log.warning("cli.disconnect_failed", error=type(error).__name__)
        finally:
            if self._mirror_failed and self._before_cleanup is not None:
                await self._before_cleanup(self._directory)
            await asyncio.to_thread(self._directory.remove)


def _size_of(content: UserContent) -> int:
    """About how many characters the content has as JSON."""
    if isinstance(content, str):
        return len(content)
    return sum(len(block.get("text", "")) + len(block.get("source", {}).get("data", "")) for block in content)
