"""AnswerForwarder: passes one successful response to the agent, and records the usage of its message."""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

import httpx2
import structlog

from app.gateway.answer_usage import StreamFold, is_error, parse_message
from app.gateway.answers.encodings import UndecodableBody
from app.gateway.call import Call
from app.gateway.cut_answer import parse_cut_answer
from app.gateway.upstream import Upstream
from app.platform.background import run_to_completion
from app.platform.concurrency.time_slice import SHOWN_S, TimeSlice
from app.platform.server.loopback import Send
from app.storable import identifier
from app.usage.records import ProviderCall

log = structlog.get_logger(__name__)

ANSWER_BYTES = 32 * 1024 * 1024
"""How much of a response is passed on: twice the longest message of any model, in the smallest pieces."""

READ_BYTES = 256 * 1024 * 1024
"""How much of a response is read for the numbers at its end."""

MAX_JSON_BYTES = 8 * 1024 * 1024
"""Limit of a response that is not streamed."""

END_S = 1.0
"""How long the end of a response may take after the last numbers of its message."""

_ERROR = re.compile(rb"^event:[ \t]*error", re.MULTILINE)

_BLANK = b" \t\r\n\xef\xbb\xbf"
"""White space, and the byte order mark."""


class AnswerTooLarge(Exception):
    """A response of the provider exceeds a limit."""


class MessageCutOff(Exception):
    """The provider ended a response before the last numbers of its message."""


@dataclass(frozen=True, slots=True)
class AnswerForwarder:
    """One response. Whatever it raises, the response breaks for the agent, too."""

    response: httpx2.Response
    call: Call
    provider: Upstream
    """Counts the tokens of what broke off."""
    send: Send

    async def forward(self, chunks: AsyncIterator[bytes]) -> None:
        """Forward the decoded body as what it is, whatever was requested and whatever its content type says.

        Raises `AnswerTooLarge`, `MessageCutOff`, and what `chunks` and the recording of usage raise.
        """
        head, time_slice = bytearray(), TimeSlice()
        async for chunk in chunks:
            _append(head, chunk)
            if chunk.lstrip(_BLANK):
                break
            await time_slice.checkpoint()
        if head.lstrip(_BLANK).startswith(b"{"):
            await self._forward_json(head, chunks)
        else:
            await self._forward_stream(bytes(head), chunks)

    async def _forward_stream(self, head: bytes, chunks: AsyncIterator[bytes]) -> None:
        """Forward a stream: one with a complete message ends in order, any other one breaks.

        An agent whose connection breaks loses what it has not read, and calls again; after any other end
        before the last numbers, some agents give up.
        """
        fold, is_whole = self._new_fold(), False
        try:
            await self._forward_chunks(head, chunks, fold)
            is_whole = True
            if fold.message is not None and not fold.message.complete:
                raise MessageCutOff
        finally:
            recorded, message = fold.message, fold.finish()
            if message is not None and message is not recorded:
                self.call.on_usage(message)
            if message is not None and not message.complete:
                await run_to_completion(self._count_output(fold))
            if fold.failed:
                self.call.on_refused()
            elif message is None and is_whole:
                self._on_unreadable(fold)

    async def _forward_chunks(self, head: bytes, chunks: AsyncIterator[bytes], fold: StreamFold) -> None:
        read, time_slice = 0, TimeSlice(SHOWN_S)
        try:
            async with asyncio.timeout(None) as end:
                async for chunk in _up_to(READ_BYTES, head, chunks):
                    read += len(chunk)
                    self._record_chunk(chunk, fold)
                    if read <= ANSWER_BYTES:
                        await self._send_piece(_before_error(chunk) if fold.broken else chunk)
                    if fold.broken:
                        raise MessageCutOff
                    if fold.is_complete and end.when() is None:
                        end.reschedule(asyncio.get_running_loop().time() + END_S)
                    await time_slice.checkpoint()
        except (httpx2.HTTPError, UndecodableBody, TimeoutError) as error:
            if not fold.is_complete:
                raise
            log.info("gateway.end_missing", reason=type(error).__name__)
        if read > ANSWER_BYTES:
            raise AnswerTooLarge

    def _record_chunk(self, chunk: bytes, fold: StreamFold) -> None:
        """Record what a piece of the answer says, before the agent can read it."""
        if fold.feed(chunk) and fold.message is not None:
            (self.call.on_usage if fold.is_complete else self.call.on_start)(fold.message)
        if (grown := fold.grown()) is not None:
            self.call.on_progress(grown)

    async def _count_output(self, fold: StreamFold) -> None:
        """Record the output of a truncated message, counted by the provider."""
        # First, so that the provider stops generating output.
        await self.response.aclose()
        message = fold.finish()
        if message is not None:
            count = await self.provider.count(message.model, fold.received())
            self.call.on_usage(fold.finish(counted=count) or message)

    async def _forward_json(self, body: bytearray, chunks: AsyncIterator[bytes]) -> None:
        # The agent cannot use half a JSON object, so it gets all of it once it is recorded.
        time_slice, is_whole = TimeSlice(), False
        try:
            async for chunk in chunks:
                _append(body, chunk)
                await time_slice.checkpoint()
            is_whole = True
        finally:
            if not is_whole:
                await run_to_completion(self._record_cut_json(bytes(body)))
        self._record_json(bytes(body))
        await self._send_piece(bytes(body))

    async def _record_cut_json(self, body: bytes) -> None:
        """Record what arrived of an answer that broke off: estimated, then counted by the provider."""
        await self.response.aclose()
        cut = parse_cut_answer(body, call=self._provider_call(), size=self.call.size)
        if cut is None:
            # Not even its id arrived: only the prompt is charged.
            return
        self.call.on_usage(cut.message)
        prompt, output = await asyncio.gather(
            self.provider.count_prompt(self.response.request.content),
            self.provider.count(cut.message.model, cut.content.text),
        )
        self.call.on_usage(cut.counted(prompt=prompt, output=output))

    def _record_json(self, body: bytes) -> None:
        message = parse_message(
            body,
            call=self._provider_call(),
            prompt_tokens=self.call.size.estimate.prompt_tokens,
            longest_output=self.call.size.maximum.output_tokens,
        )
        if message is not None:
            self.call.on_usage(message)
        elif is_error(body):
            self.call.on_refused()
        else:
            self._record_disguised(body)

    def _record_disguised(self, body: bytes) -> None:
        """Record a stream that begins like JSON: agents skip a first line that is none of an event."""
        fold = self._new_fold()
        fold.feed(body)
        if (message := fold.finish()) is not None:
            self.call.on_usage(message)
        else:
            self._on_unreadable(fold)

    def _on_unreadable(self, fold: StreamFold) -> None:
        self.call.on_unreadable(
            output_tokens=fold.received_tokens(), request_id=fold.call.provider_request_id
        )

    async def _send_piece(self, piece: bytes) -> None:
        await self.send({"type": "http.response.body", "body": piece, "more_body": True})

    def _new_fold(self) -> StreamFold:
        size = self.call.size
        return StreamFold(self._provider_call(), size.maximum.output_tokens, size.estimate.prompt_tokens)

    def _provider_call(self) -> ProviderCall:
        """What the headers say about the call; the ids name it to the provider's support and in reports."""

        def header(name: str) -> str | None:
            value = self.response.headers.get(name)
            return identifier(value) if value else None

        return ProviderCall(
            requested_model=self.call.size.model,
            provider_request_id=header("request-id"),
            provider_organization_id=header("anthropic-organization-id"),
            provider_workspace_id=header("anthropic-workspace-id"),
        )


def _before_error(chunk: bytes) -> bytes:
    """What has arrived together with an error, and before it: the agent gets it as if it had come alone."""
    error = _ERROR.search(chunk)
    return b"" if error is None else chunk[: error.start()]


def _append(body: bytearray, chunk: bytes) -> None:
    body += chunk
    if len(body) > MAX_JSON_BYTES:
        raise AnswerTooLarge


async def _up_to(most: int, head: bytes, chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The first piece and the others; raises `AnswerTooLarge` if there are more bytes."""
    yield head
    read = len(head)
    async for chunk in chunks:
        read += len(chunk)
        if read > most:
            raise AnswerTooLarge
        yield chunk
