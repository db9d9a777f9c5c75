"""One CLI process for one run: started, listened to, interrupted, ended, cleaned up after.

One task owns the SDK client from connect to disconnect and drains its messages into a queue
without bounds: the SDK's scopes belong to one task, and a hundred unread messages would block
even its interrupt.
"""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import structlog
from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKClient, ClaudeSDKError, Message, ResultMessage

from app.executors.claude_agent.directories import RunDirectory

log = structlog.get_logger(__name__)


class CliFailed(Exception):
    """The CLI could not be started, died or said something nobody understands."""


INTERRUPT_GRACE_S = 2.0
"""How long an interrupted CLI may take to say its last numbers before it is killed."""

INTERRUPT_AGAIN_S = 0.25
STDERR_LINES = 20


class CliProcess:
    """The CLI of one run."""

    def __init__(self, options: ClaudeAgentOptions, directory: RunDirectory) -> None:
        self.stderr: deque[str] = deque(maxlen=STDERR_LINES)
        """The last lines the CLI wrote beside its protocol; for the operator's log only."""
        self._client = ClaudeSDKClient(replace(options, stderr=self.stderr.append))
        self._directory = directory
        self._messages: asyncio.Queue[Message | Exception | None] = asyncio.Queue()
        self._stopping = False
        self._asked = asyncio.Event()
        self._heard_all = asyncio.Event()

    async def own(self, content: str | list[dict[str, Any]]) -> None:
        """Connect, ask, drain to the result, disconnect, clean up. Runs as a task of its own."""
        try:
            await self._listen(content)
        except Exception as error:  # noqa: BLE001 - whatever it was, the run must hear of it
            self._messages.put_nowait(error)
        finally:
            self._heard_all.set()
            self._messages.put_nowait(None)
            with anyio.CancelScope(shield=True):
                await self._end()

    async def messages(self) -> AsyncIterator[Message]:
        """Everything the CLI says, up to its result. Raises `CliFailed`."""
        while (item := await self._messages.get()) is not None:
            if isinstance(item, Exception):
                message = f"{type(item).__name__}: {item}"
                raise CliFailed(message) from item
            yield item

    async def stop(self) -> None:
        """Interrupt until the CLI has said its last word; kill it when that takes too long."""
        self._stopping = True
        try:
            async with asyncio.timeout(INTERRUPT_GRACE_S):
                await self._interrupt()
        except (TimeoutError, ClaudeSDKError) as error:
            log.warning("the CLI did not take the interrupt", error=type(error).__name__)
            self.kill()

    def kill(self) -> None:
        """Kill a process that still speaks; what it was saying is lost, so this comes last."""
        if self._heard_all.is_set():
            return
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int(self._directory.pid_file.read_text()), signal.SIGKILL)

    async def _listen(self, content: str | list[dict[str, Any]]) -> None:
        await self._client.connect()
        if self._stopping:
            return
        await self._client.query(_only(content))
        self._asked.set()
        async for message in self._client.receive_messages():
            self._messages.put_nowait(message)
            if isinstance(message, ResultMessage):
                return

    async def _interrupt(self) -> None:
        # An interrupt that overtakes the question finds an idle CLI and does nothing: repeat it.
        while not self._heard_all.is_set():
            if self._asked.is_set():
                await self._client.interrupt()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._heard_all.wait(), INTERRUPT_AGAIN_S)

    async def _end(self) -> None:
        try:
            await self._client.disconnect()
        except ClaudeSDKError as error:
            log.warning("the CLI did not end by itself", error=type(error).__name__)
        finally:
            await asyncio.to_thread(self._directory.remove)


async def _only(content: str | list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    yield {
        "type": "user",
        "message": {"role": "user", "content": content},
        "parent_tool_use_id": None,
    }
