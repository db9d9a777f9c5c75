"""CliRun: the messages between one run and its CLI process, and how far the run is."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any, TypeAlias

from claude_agent_sdk import Message, ResultMessage
from claude_agent_sdk._internal.query import stamp_user_message

from app.conversations.sdk_transcript import PAUSED_PROMPT
from app.executors.api_format.web import MOST_PAUSES, PAUSED
from app.executors.claude_agent.process.message_buffer import MessageBuffer
from app.executors.claude_agent.process.pending_messages import PendingMessages
from app.ids import new_uuid
from app.platform.concurrency.offload import SMALL_BYTES
from app.platform.logs.context import Fields, fields_of_context
from app.platform.serialization.large_json import dumps
from app.requests.messages import Priority

UserContent: TypeAlias = str | list[dict[str, Any]]
"""The content of a user message: a text, or content blocks."""


class CliRun:
    """One run's use of a CLI process; a process that stays connected has several, one after the other."""

    def __init__(self, usage_baseline: Mapping[str, Any]) -> None:
        self.usage_baseline = usage_baseline
        """By model: the totals of the CLI before this run."""
        self.log_fields: Fields = fields_of_context()
        """What log lines of the process name while it serves this run."""
        self.continues = False
        """Whether it begins in the middle of a turn, which the CLI goes on with once it has started."""
        self.keeps_open = False
        """Whether it goes on after a result without another message, until it is ended."""
        self.pending = PendingMessages()
        self.prompted = asyncio.Event()
        """Set when the first message was sent."""
        self.responded = asyncio.Event()
        """Set when the CLI has answered for the first time, or will not."""
        self.turn_started = asyncio.Event()
        self.turn_ended = asyncio.Event()
        self.finished = asyncio.Event()
        """Set with the last result, or when there will be none."""
        self._pauses = 0
        self._buffer = MessageBuffer()
        self._outbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    @property
    def is_idle(self) -> bool:
        """Whether it is open, and every message is answered."""
        return self.keeps_open and not (self.pending.in_turn or self.pending.any_pending)

    def put(self, message_id: str, content: UserContent, priority: Priority | None) -> None:
        self.pending.add(message_id)
        self._outbox.put_nowait(
            {
                "type": "user",
                "uuid": message_id,
                "message": {"role": "user", "content": content},
                "parent_tool_use_id": None,
                **({} if priority is None else {"priority": priority}),
            }
        )

    def connect(self) -> None:
        if self.continues:
            self.pending.continue_turn()
            self.turn_started.set()
            self.prompted.set()

    async def next_prompt(self) -> dict[str, Any]:
        if self.prompted.is_set():
            # A message with priority "now" would overtake a prompt that the CLI has not started.
            await self.turn_started.wait()
        return await self._outbox.get()

    def receive(self, message: Message) -> bool:
        """Buffer a message of the CLI; returns False if there is no room."""
        if self.prompted.is_set():
            self.responded.set()
        self.pending.feed(message)
        if self.pending.any_turn_started:
            self.turn_started.set()
        if isinstance(message, ResultMessage):
            self._continue_paused(message)
            self.turn_ended.set()
        return self._buffer.put(message)

    def _continue_paused(self, result: ResultMessage) -> None:
        """Let the CLI go on with a turn that the provider has paused, which it does not do by itself."""
        if result.stop_reason == PAUSED and self._pauses < MOST_PAUSES:
            self._pauses += 1
            self.put(str(new_uuid()), PAUSED_PROMPT, None)

    def finish(self, failure: Exception | None = None) -> None:
        """No further message will come, because of this failure if there is one."""
        if not self.finished.is_set():
            self.responded.set()
            self.turn_ended.set()
            self.finished.set()
            self._buffer.end(failure)

    async def messages(self) -> AsyncIterator[Message]:
        """Every message of the CLI, up to the last result. Raises what ended them."""
        async for message in self._buffer.messages():
            yield message


async def line_of(prompt: dict[str, Any]) -> str:
    """A user message as the CLI reads it, without the end of the line."""
    message = stamp_user_message(prompt, verbatim_prompts=True)
    # ASCII: some line readers end a line at U+2028.
    serialize = partial(dumps, {**message, "session_id": "default"}, ascii_only=True)
    is_small = _size_of(message["message"]["content"]) <= SMALL_BYTES
    # The SDK's `query` does the same, but serializes large messages on the event loop, too.
    return serialize() if is_small else await asyncio.to_thread(serialize)


def _size_of(content: UserContent) -> int:
    """About how many characters the content has as JSON."""
    if isinstance(content, str):
        return len(content)
    return sum(len(block.get("text", "")) + len(block.get("source", {}).get("data", "")) for block in content)
