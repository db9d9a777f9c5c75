"""CliRun: the messages between one run and its CLI process, and how far the run is."""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import is_dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from claude_agent_sdk import Message, ResultMessage, UserMessage
from claude_agent_sdk._internal.query import stamp_user_message

from app.conversations.sdk_transcript import PAUSED_PROMPT
from app.executors.api_format.web import MOST_PAUSES, PAUSED
from app.ids import new_uuid
from app.platform.concurrency.offload import SMALL_BYTES
from app.platform.logs.context import Fields, fields_of_context
from app.platform.serialization.large_json import dumps
from app.requests.messages import Priority


class PendingMessages:
    """Which user messages the CLI has not started to process, by what is sent to it and all that it sends.

    The CLI repeats each user message (`--replay-user-messages`) when it starts to process it. A result
    ends the turn of all messages that were started until then.
    """

    def __init__(self) -> None:
        self._pending: list[str] = []
        self.in_turn = False
        """Whether a turn is running."""
        self.any_turn_started = False

    @property
    def any_pending(self) -> bool:
        """Whether there is a message that the CLI has not started to process."""
        return bool(self._pending)

    @property
    def has_next_turn(self) -> bool:
        """Whether there is more than the message that the current turn begins with."""
        return len(self._pending) > (0 if self.in_turn else 1)

    def add(self, message_id: str) -> None:
        self._pending.append(message_id)

    def continue_turn(self) -> None:
        """A turn runs that began before this process."""
        self.in_turn = self.any_turn_started = True

    def feed(self, message: Message) -> None:
        match message:
            case UserMessage(uuid=str(started)) if started in self._pending:
                self._pending.remove(started)
                self.in_turn = self.any_turn_started = True
            case ResultMessage():
                # A turn that fails at once may end without a repeated user message.
                started_by = self._pending[:1] if not self.in_turn else []
                done = {*started_by, *(message.user_message_uuids or ())}
                self._pending = [message_id for message_id in self._pending if message_id not in done]
                self.in_turn = False
                self.any_turn_started = True
            case _:
                pass


MAX_BYTES: Final = 64 * 1024 * 1024
"""Limit of waiting messages, by their size in memory: about 40 000 pieces of text."""


class BufferFull(Exception):
    """The CLI sends messages faster than they are processed."""


class MessageBuffer:
    """A queue, bounded in bytes, whose writer never waits: waiting would block the SDK's interrupt."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._queue: asyncio.Queue[tuple[Message | Exception | None, int]] = asyncio.Queue()
        self._max_bytes = max_bytes
        self._bytes = 0
        self._full = False

    def put(self, message: Message) -> bool:
        """Add a message; returns False if there is no room.

        An empty buffer accepts a message of any size. After the first False nothing more is added.
        """
        size = _memory_of(message)
        self._full |= self._bytes > 0 and self._bytes + size > self._max_bytes
        if not self._full:
            self._bytes += size
            self._queue.put_nowait((message, size))
        return not self._full

    def end(self, error: Exception | None = None) -> None:
        """End after the messages that wait: with this error, or with `BufferFull` if there was no room."""
        self._queue.put_nowait((BufferFull(BufferFull.__doc__) if self._full else error, 0))

    async def messages(self) -> AsyncIterator[Message]:
        """Every message up to the end. Raises the error it ended with."""
        while True:
            item, size = await self._queue.get()
            self._bytes -= size
            if item is None:
                return
            if isinstance(item, Exception):
                raise item
            yield item


def _memory_of(value: Any) -> int:
    size = sys.getsizeof(value)
    match value:
        case str() | int() | float() | None:
            return size
        case dict():
            return size + sum(_memory_of(name) + _memory_of(item) for name, item in value.items())
        case list() | tuple():
            return size + sum(map(_memory_of, value))
        case _ if is_dataclass(value):
            return size + _memory_of(vars(value))
        case _:
            return size


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
