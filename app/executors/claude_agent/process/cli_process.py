"""CliProcess: one CLI process, from its start to its cleanup.

One task owns the SDK client from connect to disconnect, because the SDK's cancel scopes belong to one
task. It drains the client's messages into a buffer without ever waiting: a hundred unread messages
would block even the SDK's interrupt. A CLI that sends messages faster than they are processed is killed.

A process serves one run and ends with its last result, unless it `stays`: then it is idle until `begin_run`
or `discard`.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from typing import Any

import anyio
import claude_agent_sdk as sdk
import psutil
import structlog

from app.executors.claude_agent.options.long_context import with_provider_names
from app.executors.claude_agent.process.cli_run import CliRun, UserContent, line_of
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.failures import CliFailed, OutputEnded, StderrTail, failure_of
from app.executors.claude_agent.process.sanitizer import sanitize
from app.executors.claude_agent.process.spawned import SpawnedProcess
from app.executors.claude_agent.sandbox.port import Sandbox
from app.executors.inbox import RunEnded
from app.ids import new_uuid
from app.platform.logs.context import start_detached
from app.requests.messages import Priority

log = structlog.get_logger(__name__)


INTERRUPT_GRACE_S = 2.0
"""How long an interrupted CLI may take to send its last numbers before it is killed."""

INTERRUPT_RETRY_S = 0.25
WARM_UP_S = 30.0
"""How long a CLI may take to warm up before it is ended."""

_NOT_RUNNING = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD, psutil.STATUS_STOPPED}


class CliProcess:
    """A CLI that runs, or is being started."""

    def __init__(
        self,
        client: sdk.ClaudeSDKClient,
        directory: RunDirectory,
        *,
        stderr: StderrTail | None = None,
        reads_usage_baseline: bool = False,
        before_cleanup: Callable[[RunDirectory], Awaitable[None]] | None = None,
        sandbox: Sandbox | None = None,
        stays: bool = False,
        start_slot: AbstractAsyncContextManager[object] | None = None,
        warm_up: AbstractContextManager[None] | None = None,
        warm_up_s: float = WARM_UP_S,
        interrupt_grace_s: float = INTERRUPT_GRACE_S,
        interrupt_retry_s: float = INTERRUPT_RETRY_S,
    ) -> None:
        """`reads_usage_baseline`: get the CLI's usage totals before the first prompt.

        `before_cleanup` is called with the directory if the SDK could not store the transcript, or the
        process is left.
        `sandbox` is the sandbox the CLI is started in. `stays`: it does not end with a run's last result.
        `start_slot` is held while it starts. `warm_up` is entered while it answers a question that leaves
        nothing behind, which it gets if it has no run once it has started.
        """
        self.stderr = stderr or StderrTail()
        self.stays = stays
        self._client = client
        self.directory = directory
        self._reads_usage_baseline = reads_usage_baseline
        self._before_cleanup = before_cleanup
        self._sandbox = sandbox
        self._start_slot = start_slot or nullcontext()
        self._warm_up, self._warm_up_s = warm_up, warm_up_s
        self._interrupt_grace_s, self._interrupt_retry_s = interrupt_grace_s, interrupt_retry_s
        self._mirror_failed = False
        self.is_left = False
        """Whether it was killed in the middle of a turn that another process goes on with."""
        self._disturbed = False
        """Whether something happened after which its context may differ from what is stored."""
        self.killed = False
        """Whether we killed it."""
        self.exited = asyncio.Event()
        """Set when the process has ended and its directory is removed."""
        self._run = CliRun({})
        self._usage: Mapping[str, Any] = {}
        """By model: its totals at the last result."""
        self._connected = False
        self._sending: asyncio.Task[None] | None = None
        self._send_failure: Exception | None = None
        self._stopping = False
        self._ended = False
        """Whether it is ending or has ended."""
        self._owner: asyncio.Task[None] | None = None
        self._spawned = SpawnedProcess(client)
        self._owner_runs = False

    def start(self) -> asyncio.Task[None]:
        """Start it; the caller must wait for the task, which ends when everything is cleaned up.

        Its log lines, and those of the SDK, name the run that it serves at that moment.
        """
        self._owner = start_detached(self._own(), fields=lambda: self._run.log_fields)
        return self._owner

    def begin_run(self) -> None:
        """Serve the caller's run from now on; the run before it, if any, has finished."""
        self._run = CliRun(self._usage)
        self._warm_up = None
        if self._connected:
            self._start_sending()

    def leave_run(self) -> None:
        """Its run has ended; log lines name no run until there is another."""
        self._run.log_fields = {}

    @property
    def reusable(self) -> bool:
        """Whether its run has ended by itself, so that it could serve another run of its conversation."""
        disturbed = self._disturbed or self._mirror_failed or self._stopping or self.killed
        return self.stays and self._run.finished.is_set() and not disturbed and self.alive

    @property
    def usage_baseline(self) -> Mapping[str, Any]:
        """By model: the CLI's totals before the current run."""
        return self._run.usage_baseline

    @property
    def responded(self) -> asyncio.Event:
        """Set when it has sent its first message of the current run, or will send none."""
        return self._run.responded

    @property
    def pid(self) -> int | None:
        """Its process id; None before its launcher has written it and after its cleanup."""
        try:
            return int(self.directory.pid_file.read_text())
        except (FileNotFoundError, ValueError):
            return None

    @property
    def alive(self) -> bool:
        """Whether the process runs or is being started; one that was stopped (SIGSTOP) does not."""
        # A process that has ended exists until the event loop has read its exit code.
        return not self._ended and self._status not in _NOT_RUNNING

    @property
    def _status(self) -> str | None:
        """As the operating system calls it; None while it is being started."""
        if (pid := self.pid) is None:
            return None
        try:
            return str(psutil.Process(pid).status())
        except psutil.NoSuchProcess:
            return str(psutil.STATUS_DEAD)

    def discard(self) -> None:
        self._stopping = True
        # A task that is cancelled before its first step would clean up nothing, and one that is cancelled
        # during its cleanup would not finish it.
        if self._owner is not None and self._owner_runs and not self._ended:
            self._ended = True
            self._spawned.note()
            self._owner.cancel()

    async def _own(self) -> None:
        """Connect, serve runs, disconnect, clean up."""
        self._owner_runs = True
        failure: Exception | None = None
        try:
            if not self._stopping:
                await self._serve()
        except Exception as error:  # noqa: BLE001 - `messages` raises it, whatever it is
            failure = error
        finally:
            self._stopping = self._ended = True
            self._run.finish(failure or self._send_failure)
            with anyio.CancelScope(shield=True):
                try:
                    await self._disconnect()
                finally:
                    self.exited.set()

    def send(self, message_id: str, content: UserContent, *, priority: Priority | None = None) -> None:
        """Send the agent a user message, now or once it is connected; raises `RunEnded`."""
        if self._stopping or self._run.finished.is_set():
            raise RunEnded
        self._run.put(message_id, content, priority)

    def send_first(self, prompt: UserContent | None, *, keeps_open: bool = False) -> None:
        """Send the first message; None if it goes on with the turn with which its transcript ends.

        `keeps_open`: the run does not end with its last result, but with `close_open_run`.
        """
        self._run.keeps_open = keeps_open
        if prompt is None:
            self._run.continues = True
        else:
            self.send(str(new_uuid()), prompt)

    async def messages(self) -> AsyncIterator[sdk.Message]:
        """Every message of the CLI for the current run, up to its last result. Raises `CliFailed`."""
        try:
            async for message in self._run.messages():
                yield message
        except Exception as error:
            failure = failure_of(error, connected=self._connected)
            raise CliFailed(f"{type(error).__name__}: {error}", failure) from error

    @property
    def run(self) -> CliRun:
        return self._run

    def close_open_run(self) -> None:
        """End a run that is open, if every message is answered."""
        if self._run.is_idle:
            self._run.finish()
            self._stop_sending()

    async def interrupt(self) -> None:
        """Stop the current turn; kill the CLI when that takes too long."""
        # The CLI rewrites an interrupted turn when it resumes, but not in the context it has.
        self._disturbed = True
        self._run.turn_ended.clear()
        await self._interrupt_until(self._run.turn_ended)

    async def stop(self) -> None:
        """Take no more messages, interrupt, wait for the last result; kill the CLI if that takes too long."""
        self._stopping = True
        self.close_open_run()
        await self._interrupt_until(self._run.finished)

    def kill(self) -> None:
        """Kill a process whose run has not finished; the rest of its output is lost."""
        if self._run.finished.is_set():
            return
        self.killed = True
        if not self._run.prompted.is_set():
            self.discard()
        self._send_kill()

    def leave(self) -> None:
        """Kill it in the middle of a turn, which another process goes on with from what it has written."""
        self.is_left = True
        self.kill()

    def _send_kill(self) -> None:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(self.directory.pid_file.read_text()), signal.SIGKILL)

    async def _serve(self) -> None:
        async with self._start_slot, self._spawned.noted():
            await self._client.connect()
        if self._stopping:
            return
        if self._sandbox is not None:
            pid = int(self.directory.pid_file.read_text())
            await self._sandbox.enter(pid)
            self.directory.use_config(self._sandbox.config)
        if self._reads_usage_baseline:
            self._run.usage_baseline = self._usage = await self._read_usage()
        if self._warm_up is not None:
            await self._answer_side_question(self._warm_up)
        self._connected = True
        self._start_sending()
        try:
            async for message in self._client.receive_messages():
                if self._process(sanitize(message)):
                    return
        finally:
            self._stop_sending()
        if not self._stopping:
            raise OutputEnded(OutputEnded.__doc__ or "")

    def _process(self, message: sdk.Message) -> bool:
        """Update the state and buffer the message; returns whether the process has served its last run."""
        run = self._run
        self._mirror_failed |= isinstance(message, sdk.MirrorErrorMessage)
        if run.finished.is_set():
            # Between runs nothing was requested, so nothing may be answered.
            self._disturbed |= not isinstance(message, sdk.SystemMessage)
            return False
        if not run.receive(message) and not self.killed:
            log.error("cli.buffer_full")
            self.kill()
        if not isinstance(message, sdk.ResultMessage):
            return False
        self._usage = message.model_usage or self._usage
        if (run.keeps_open or run.pending.any_pending) and not self._stopping:
            return False
        if not self.stays or self._stopping:
            return True
        run.finish()
        self._stop_sending()
        return False

    async def _read_usage(self) -> dict[str, Any]:
        answer = await self._request("get_usage")
        usage: dict[str, Any] = answer["session"]["model_usage"]
        return with_provider_names(usage)

    async def _answer_side_question(self, warm_up: AbstractContextManager[None]) -> None:
        """Make the CLI load what its first turn needs: a side question is in no context or transcript."""
        try:
            with warm_up:
                async with asyncio.timeout(self._warm_up_s):
                    await self._request("side_question", question="Ready?")
        except Exception as error:
            # It ends: a call that it makes later would be that of a run.
            log.warning("cli.warm_up_failed", error=type(error).__name__)
            raise

    async def _request(self, subtype: str, **fields: object) -> dict[str, Any]:
        # The SDK has no public API for these; its version is pinned.
        query = self._client._query  # noqa: SLF001
        if query is None:
            raise OutputEnded(OutputEnded.__doc__ or "")
        answer: dict[str, Any] = await query._send_control_request({"subtype": subtype, **fields})  # noqa: SLF001
        return answer

    def _start_sending(self) -> None:
        self._stop_sending()
        self._sending = asyncio.create_task(self._send_prompts(self._run))

    def _stop_sending(self) -> None:
        if self._sending is not None:
            self._sending.cancel()

    async def _send_prompts(self, run: CliRun) -> None:
        run.connect()
        try:
            while True:
                await self._write(await run.next_prompt())
                run.prompted.set()
        except sdk.ClaudeSDKError:
            # The CLI has died: `messages` raises that.
            return
        except Exception as error:  # noqa: BLE001 - `messages` raises it, whatever it is
            self._send_failure = error
            self.discard()

    async def _write(self, prompt: dict[str, Any]) -> None:
        line = await line_of(prompt)
        transport = self._client._transport  # noqa: SLF001 - its version is pinned
        if transport is None:
            raise OutputEnded(OutputEnded.__doc__ or "")
        await transport.write(f"{line}\n")

    async def _interrupt_until(self, ended: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(self._interrupt_grace_s):
                while not ended.is_set():
                    in_turn = self._run.pending.in_turn
                    if self._run.prompted.is_set():
                        await self._client.interrupt()
                    if in_turn:
                        # Once only: a second one could arrive late and abort the next message's turn.
                        await ended.wait()
                        return
                    # The CLI was idle, and ignored an interrupt that overtook the prompt: repeat it.
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(ended.wait(), self._interrupt_retry_s)
        except (TimeoutError, sdk.ClaudeSDKError) as error:
            log.warning("cli.interrupt_failed", error=type(error).__name__)
            self.kill()

    async def _disconnect(self) -> None:
        if self._status == psutil.STATUS_STOPPED:
            # It would not notice that its input has ended.
            self._send_kill()
        self._spawned.note()
        try:
            await self._client.disconnect()
        except sdk.ClaudeSDKError as error:
            log.warning("cli.disconnect_failed", error=type(error).__name__)
        finally:
            await self._spawned.close_output()
            if (self._mirror_failed or self.killed) and self._before_cleanup is not None:
                await self._before_cleanup(self.directory)
            await asyncio.to_thread(self.directory.remove)
