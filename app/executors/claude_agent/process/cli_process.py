"""One CLI process for one run: started, spoken and listened to, interrupted, ended, cleaned up after.

One task owns the SDK client from connect to disconnect and drains its messages into a
buffer without ever waiting: the SDK's scopes belong to one task, and a hundred unread messages
would block even its interrupt. A CLI that sends messages faster than they are processed is killed.
"""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeAlias

import anyio
import psutil
import structlog
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    ClaudeSDKError,
    Message,
    MirrorErrorMessage,
    ResultMessage,
    UserMessage,
)
from claude_agent_sdk._internal.query import stamp_user_message

from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.process.message_buffer import MessageBuffer
from app.executors.claude_agent.sandbox.confinement import RunningSandbox
from app.executors.claude_agent.sanitizer import taken_in
from app.executors.control import RunEnded
from app.large_json import dumps
from app.requests import Priority
from app.storable import storable

log = structlog.get_logger(__name__)


UserContent: TypeAlias = str | list[dict[str, Any]]


class CliFailed(Exception):
    """The CLI could not be started, died or sent something nobody understands."""


INTERRUPT_GRACE_S = 2.0
"""How long an interrupted CLI may take to say its last numbers before it is killed."""

INTERRUPT_AGAIN_S = 0.25
STDERR_LINES = 20
STDERR_CHARS = 1_000
"""Of a line; the rest is dropped."""


class CliProcess:
    """The CLI of one run."""

    def __init__(
        self,
        options: ClaudeAgentOptions,
        directory: RunDirectory,
        *,
        counts: bool = False,
        before_removal: Callable[[RunDirectory], Awaitable[None]] | None = None,
        confinement: RunningSandbox | None = None,
    ) -> None:
        """`counts`: ask it what it believes to have used before it is asked anything else.

        `before_removal` may take what it needs from the folder of a CLI whose SDK could not.
        `confinement` is the jail it comes up in.
        """
        self.stderr: deque[str] = deque(maxlen=STDERR_LINES)
        """The last lines the CLI wrote beside its protocol; for the operator's log only."""
        self._client = ClaudeSDKClient(replace(options, stderr=self._hear_stderr))
        self._directory = directory
        self._counts = counts
        self.counted_before: dict[str, Any] = {}
        """By model: a conversation that goes on begins with the totals of its earlier runs."""
        self._before_removal = before_removal
        self._confinement = confinement
        self._mirror_failed = False
        self.killed = False
        """Whether it died by our hand."""
        self.gone = asyncio.Event()
        """Set when the process has ended and its folder is removed."""
        self._buffer = MessageBuffer()
        self._unanswered = UnansweredMessages()
        self._unsent: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._stopping = False
        self._asked = asyncio.Event()
        self._begun = asyncio.Event()
        self._turn_over = asyncio.Event()
        self.heard = asyncio.Event()
        """Set when it has said something, or will not."""
        self._heard_all = asyncio.Event()
        self._owner: asyncio.Task[None] | None = None

    def _hear_stderr(self, line: str) -> None:
        self.stderr.append(storable(line[:STDERR_CHARS]))

    def start(self) -> asyncio.Task[None]:
        """Start it; whoever starts it must wait for the task, which ends when all is cleaned up."""
        self._owner = asyncio.create_task(self._own())
        return self._owner

    @property
    def alive(self) -> bool:
        """Whether there is a process that can be spoken to, or one is coming up."""
        if self._heard_all.is_set():
            return False
        try:
            process = psutil.Process(int(self._directory.pid_file.read_text()))
            # One that has ended is there until the event loop has taken its exit code.
            return process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False
        except (FileNotFoundError, ValueError):
            # The launcher has not come so far.
            return True

    def retire(self) -> None:
        """End a process that nobody has spoken to."""
        if self._owner is not None:
            self._owner.cancel()

    async def _own(self) -> None:
        """Connect, wait for a question, drain to the last result, disconnect, clean up."""
        failure: Exception | None = None
        try:
            await self._listen()
        except Exception as error:  # noqa: BLE001 - whatever it was, the run must hear of it
            failure = error
        finally:
            self._stopping = True
            self.heard.set()
            self._turn_over.set()
            self._heard_all.set()
            self._buffer.end(failure)
            with anyio.CancelScope(shield=True):
                try:
                    await self._end()
                finally:
                    self.gone.set()

    def say(self, message_id: str, content: UserContent, *, priority: Priority | None = None) -> None:
        """Give the agent a user message, now or when it is up; raises `RunEnded`."""
        if self._stopping:
            raise RunEnded
        self._unanswered.add(message_id)
        self._unsent.put_nowait(
            {
                "type": "user",
                "uuid": message_id,
                "message": {"role": "user", "content": content},
                "parent_tool_use_id": None,
                **({} if priority is None else {"priority": priority}),
            }
        )

    async def messages(self) -> AsyncIterator[Message]:
        """Everything the CLI says, up to its last result. Raises `CliFailed`."""
        try:
            async for message in self._buffer.messages():
                yield message
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise CliFailed(reason) from error

    @property
    def has_more_to_do(self) -> bool:
        """Whether messages wait that are not part of the current turn."""
        return self._unanswered.beyond_this_turn

    async def interrupt(self) -> None:
        """Stop the current turn; kill the CLI when that takes too long."""
        self._turn_over.clear()
        await self._interrupt_until(self._turn_over)

    async def stop(self) -> None:
        """Stop for good: no further message, and the CLI's last word; kill it when that takes too long."""
        self._stopping = True
        await self._interrupt_until(self._heard_all)

    def kill(self) -> None:
        """Kill a process that still speaks; what it was saying is lost, so this comes last."""
        if self._heard_all.is_set():
            return
        self.killed = True
        if not self._asked.is_set():
            self.retire()
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(self._directory.pid_file.read_text()), signal.SIGKILL)

    async def _listen(self) -> None:
        await self._client.connect()
        if self._stopping:
            return
        if self._confinement is not None:
            pid = int(self._directory.pid_file.read_text())
            await asyncio.to_thread(self._confinement.enter, pid)
            self._directory.find_config(self._confinement.config)
        if self._counts:
            self.counted_before = await self._counted()
        await self._send()
        self._asked.set()
        sending = asyncio.create_task(self._send_on())
        try:
            async for message in self._client.receive_messages():
                message = taken_in(message)  # noqa: PLW2901 - nobody needs it as it came
                self.heard.set()
                self._unanswered.hear(message)
                if self._unanswered.has_begun:
                    self._begun.set()
                self._mirror_failed |= isinstance(message, MirrorErrorMessage)
                self._keep(message)
                if isinstance(message, ResultMessage):
                    self._turn_over.set()
                    if self._is_done():
                        return
        finally:
            sending.cancel()

    def _keep(self, message: Message) -> None:
        if not self._buffer.put(message) and not self.killed:
            log.error("the CLI sends messages faster than they are processed and is killed")
            self.kill()

    async def _counted(self) -> dict[str, Any]:
        # The SDK has no public way to ask; its version is pinned.
        query = self._client._query  # noqa: SLF001
        if query is None:
            raise CliFailed(CliFailed.__doc__)
        answer = await query._send_control_request({"subtype": "get_usage"})  # noqa: SLF001
        counted: dict[str, Any] = answer["session"]["model_usage"]
        return counted

    def _is_done(self) -> bool:
        return self._stopping or not self._unanswered.waiting

    async def _send_on(self) -> None:
        # What is to be heard `now` would overtake a question that the CLI has not taken up.
        await self._begun.wait()
        # Whoever reads what the CLI says hears of it as well when it is gone.
        with contextlib.suppress(ClaudeSDKError):
            while True:
                await self._send()

    async def _send(self) -> None:
        message = stamp_user_message(await self._unsent.get(), verbatim_prompts=True)
        # Some readers of lines end one at U+2028.
        line = await asyncio.to_thread(dumps, {**message, "session_id": "default"}, ascii_only=True)
        # What the SDK's `query` does with a message, but for the event loop, which that would hold up.
        transport = self._client._transport  # noqa: SLF001 - its version is pinned
        if transport is None:
            raise CliFailed(CliFailed.__doc__)
        await transport.write(f"{line}\n")

    async def _interrupt_until(self, over: asyncio.Event) -> None:
        try:
            async with asyncio.timeout(INTERRUPT_GRACE_S):
                # An interrupt that overtakes the question finds an idle CLI and does nothing: repeat it.
                while not over.is_set():
                    if self._asked.is_set():
                        await self._client.interrupt()
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(over.wait(), INTERRUPT_AGAIN_S)
        except (TimeoutError, ClaudeSDKError) as error:
            log.warning("the CLI did not take the interrupt", error=type(error).__name__)
            self.kill()

    async def _end(self) -> None:
        try:
            await self._client.disconnect()
        except ClaudeSDKError as error:
            log.warning("the CLI did not end by itself", error=type(error).__name__)
        finally:
            if self._mirror_failed and self._before_removal is not None:
                await self._before_removal(self._directory)
            await asyncio.to_thread(self._directory.remove)


class UnansweredMessages:
    """User messages the CLI has yet to answer.

    The CLI repeats each (`--replay-user-messages`) when it takes it up, and a result closes all it
    has taken up until then.
    """

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._turn_has_begun = False
        self.has_begun = False
        """Whether any turn has."""

    @property
    def waiting(self) -> bool:
        """Whether any was not taken up yet."""
        return bool(self._waiting)

    @property
    def beyond_this_turn(self) -> bool:
        """Whether there is more than what the current turn began with."""
        return len(self._waiting) > (0 if self._turn_has_begun else 1)

    def add(self, message_id: str) -> None:
        """A message was sent."""
        self._waiting.append(message_id)

    def hear(self, message: Message) -> None:
        """Take note of what the CLI says."""
        match message:
            case UserMessage(uuid=str(taken)) if taken in self._waiting:
                self._waiting.remove(taken)
                self._turn_has_begun = self.has_begun = True
            case ResultMessage():
                # A turn that fails at once may end without a word of what began it.
                begun_by = self._waiting[:1] if not self._turn_has_begun else []
                over = {*begun_by, *(message.user_message_uuids or ())}
                self._waiting = [message_id for message_id in self._waiting if message_id not in over]
                self._turn_has_begun = False
                self.has_begun = True
            case _:
                pass
