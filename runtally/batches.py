"""Batches and AsyncBatches: many requests of one graph at once."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Unpack

from runtally.options import Prompt, RunOptions
from runtally.protocol import batch_calls as calls
from runtally.protocol.call import AsyncSend, Send
from runtally.protocol.pages import each, each_async
from runtally.types import Batch, BatchPreview, BatchResult

DEFAULT_PARALLELISM = 8
_EVERY_S = 0.5


class Batches:
    """Each prompt of a batch is a run; `lines` are those of a file: `{"customId": …, "request": {…}}`."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def create(
        self,
        graph: str,
        prompts: Mapping[str, Prompt],
        *,
        parallelism: int = DEFAULT_PARALLELISM,
        max_usd: Decimal | None = None,
        **options: Unpack[RunOptions],
    ) -> Batch:
        """Start a batch of prompts by the ids that their results get; all have the same options."""
        lines = calls.lines_of(graph, prompts, options)
        return self.create_from(lines, parallelism=parallelism, max_usd=max_usd)

    def create_from(
        self, lines: bytes, *, parallelism: int = DEFAULT_PARALLELISM, max_usd: Decimal | None = None
    ) -> Batch:
        """Start a batch; beyond `max_usd` no further item is started."""
        return self._send(calls.create_batch(lines, parallelism=parallelism, max_usd=max_usd))

    def preview(self, lines: bytes, *, parallelism: int = DEFAULT_PARALLELISM) -> BatchPreview:
        """Check a batch and forecast its cost, without starting anything."""
        return self._send(calls.preview_batch(lines, parallelism=parallelism))

    def list(self) -> Iterator[Batch]:
        """All batches, newest first."""
        return each(self._send, calls.list_batches)

    def get(self, batch_id: str) -> Batch:
        """How far a batch has come."""
        return self._send(calls.get_batch(batch_id))

    def watch(self, batch_id: str) -> Iterator[Batch]:
        """The batch now and whenever it has changed, until it has ended."""
        seen = None
        while True:
            batch = self.get(batch_id)
            if batch != seen:
                yield batch
            if batch.ended_at is not None:
                return
            seen = batch
            time.sleep(_EVERY_S)

    def results(self, batch_id: str) -> Sequence[BatchResult]:
        """The items that have ended, in the order of the lines."""
        return self._send(calls.list_results(batch_id))

    def cancel(self, batch_id: str) -> Batch:
        """Start no further item and cancel the runs of the others."""
        return self._send(calls.cancel_batch(batch_id))

    def delete(self, batch_id: str) -> None:
        """Delete an ended batch; its runs and receipts stay."""
        self._send(calls.delete_batch(batch_id))


class AsyncBatches:
    """The same for asyncio."""

    def __init__(self, send: AsyncSend) -> None:
        self._send = send

    async def create(
        self,
        graph: str,
        prompts: Mapping[str, Prompt],
        *,
        parallelism: int = DEFAULT_PARALLELISM,
        max_usd: Decimal | None = None,
        **options: Unpack[RunOptions],
    ) -> Batch:
        """Start a batch of prompts by the ids that their results get; all have the same options."""
        lines = calls.lines_of(graph, prompts, options)
        return await self.create_from(lines, parallelism=parallelism, max_usd=max_usd)

    async def create_from(
        self, lines: bytes, *, parallelism: int = DEFAULT_PARALLELISM, max_usd: Decimal | None = None
    ) -> Batch:
        """Start a batch; beyond `max_usd` no further item is started."""
        return await self._send(calls.create_batch(lines, parallelism=parallelism, max_usd=max_usd))

    async def preview(self, lines: bytes, *, parallelism: int = DEFAULT_PARALLELISM) -> BatchPreview:
        """Check a batch and forecast its cost, without starting anything."""
        return await self._send(calls.preview_batch(lines, parallelism=parallelism))

    def list(self) -> AsyncIterator[Batch]:
        """All batches, newest first."""
        return each_async(self._send, calls.list_batches)

    async def get(self, batch_id: str) -> Batch:
        """How far a batch has come."""
        return await self._send(calls.get_batch(batch_id))

    async def watch(self, batch_id: str) -> AsyncIterator[Batch]:
        """The batch now and whenever it has changed, until it has ended."""
        seen = None
        while True:
            batch = await self.get(batch_id)
            if batch != seen:
                yield batch
            if batch.ended_at is not None:
                return
            seen = batch
            await asyncio.sleep(_EVERY_S)

    async def results(self, batch_id: str) -> Sequence[BatchResult]:
        """The items that have ended, in the order of the lines."""
        return await self._send(calls.list_results(batch_id))

    async def cancel(self, batch_id: str) -> Batch:
        """Start no further item and cancel the runs of the others."""
        return await self._send(calls.cancel_batch(batch_id))

    async def delete(self, batch_id: str) -> None:
        """Delete an ended batch; its runs and receipts stay."""
        await self._send(calls.delete_batch(batch_id))
