"""ToolTurn: executes the tool calls of one message and collects their results."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Any, TypeVar

import structlog

from app.conversations.neutral_transcript import tool_result
from app.events import ToolCallResult
from app.executors.api_format.sent_attachments import ResultImages
from app.executors.api_format.tool_content import ModelToolCall, content_block
from app.executors.port import EventSink
from app.executors.tools.calls import ToolCalls
from app.platform.background import run_to_completion
from runtally.tools.result import ToolResult

log = structlog.get_logger(__name__)
T = TypeVar("T")

MOST_AT_ONCE = 10
"""How many calls run in parallel; as in the CLI."""

_NO_JSON = ToolResult.failed("The arguments are not valid JSON.", "invalid_args")


class ToolTurn:
    """The calls of one message: those that only read run in parallel, all others alone and in order."""

    def __init__(self, calls: ToolCalls, events: EventSink) -> None:
        self._calls = calls
        self._events = events
        self.failures = 0
        self._images = ResultImages()
        self.finished: list[dict[str, Any]] = []
        """The results of the message's calls that have ended, until those of all are returned."""
        self.unfinished: dict[str, ModelToolCall] = {}
        """The other calls, by their ids."""

    def resume(self, results: Sequence[dict[str, Any]], uses: Sequence[ModelToolCall]) -> None:
        """Go on with a message whose calls an earlier attempt has executed in part; clients have got all."""
        self.finished = list(results)
        self._calls.resume(use.call_id for use in uses)

    async def run(self, uses: Sequence[ModelToolCall]) -> list[dict[str, Any]]:
        """The `tool_result` blocks, in the order of the calls; those of an earlier attempt before them."""
        self._images = ResultImages()
        self.unfinished = {use.call_id: use for use in uses}
        blocks = list(self.finished)
        for batch in self._batches(uses):
            blocks += await _all(partial(self._call, use) for use in batch)
        self.finished = []
        return blocks

    async def publish_unfinished(self) -> None:
        """Publish that the calls that have no result failed: they were cancelled, or never made."""
        self.finished = []
        for call_id in self._calls.open_calls():
            await self._publish(call_id, ToolResult.failed(""))

    def _batches(self, uses: Sequence[ModelToolCall]) -> Iterator[list[ModelToolCall]]:
        for reads_only, batch in groupby(uses, self._reads_only):
            if reads_only:
                yield list(batch)
            else:
                yield from ([use] for use in batch)

    def _reads_only(self, use: ModelToolCall) -> bool:
        tool = self._calls.tools.get(use.name)
        return tool is not None and tool.read_only

    async def _call(self, use: ModelToolCall) -> dict[str, Any]:
        result = await self._result(use)
        content = [self._images.kept(content_block(each)) for each in result.for_model]
        block = tool_result(use.call_id, content, is_error=result.is_error)
        self.finished.append(block)
        del self.unfinished[use.call_id]
        # An interrupt loses no result of a call that has ended.
        await run_to_completion(self._publish(use.call_id, result))
        return block

    async def _result(self, use: ModelToolCall) -> ToolResult:
        if not isinstance(use.args, dict):
            log.warning("tool.failed", tool_id=use.name, tool_call_id=use.call_id, code="invalid_args")
            return _NO_JSON
        return await self._calls.run(use.name, use.args, use.call_id)

    async def _publish(self, call_id: str, result: ToolResult) -> None:
        # Before anything waits: no other result of this call may be published.
        self._calls.take_result(call_id)
        self.failures += result.is_error
        await self._events.publish(
            ToolCallResult(tool_call_id=call_id, result=result.visible, is_error=result.is_error)
        )


async def _all(calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
    slots = asyncio.Semaphore(MOST_AT_ONCE)

    async def in_slot(call: Callable[[], Awaitable[T]]) -> T:
        async with slots:
            return await call()

    tasks = [asyncio.create_task(in_slot(call)) for call in calls]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
