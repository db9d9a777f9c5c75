"""Exchange: forwards one request of an agent and records the usage of the response."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, cast

import httpx2
import structlog

from app.errors import AppError
from app.gateway.answer import AnswerForwarder, AnswerTooLarge, MessageCutOff
from app.gateway.answers.encodings import BodyDecoder, UndecodableBody, body_decoder
from app.gateway.call import Call, Rejection
from app.gateway.error_responses import UNREACHABLE, UNUSABLE, send_error
from app.gateway.prompt_cache.prompt import AgentPrompt, CachedPrompt, cached_prompt, read_request
from app.gateway.prompt_cache.rendered import PromptEvidence
from app.gateway.provider_refusals import refusal_code
from app.gateway.upstream import Upstream
from app.platform.background import first_of, run_to_completion
from app.platform.concurrency.offload import Offload
from app.platform.concurrency.time_slice import TimeSlice
from app.platform.hops import reason_of
from app.platform.metrics.gateway import GatewayMetrics
from app.platform.serialization.large_json import parsing_size
from app.platform.server.loopback import DropConnection, Receive, Scope, Send, wait_for_disconnect
from app.platform.telemetry.model_call import ModelCall

log = structlog.get_logger(__name__)

DRAIN_S = 0.02
"""How long buffered data of the provider is read after the agent disconnected."""

DRAIN_TICKS = 20
"""The same limit in iterations of the event loop, each of which may read a chunk."""

SMALL_BYTES = 1024 * 1024
"""Limit of a response that is no message: an error, or a token count."""

_AGENT_HEADER = b"x-claude-code-agent-id"
"""Names the subagent that makes a call; the main agent sends none."""

_TRACE_HEADERS = ("traceparent", "tracestate")
"""Replaced by those of our span; an agent's own would not be found in any trace."""

_INVALID = {400, 413}
_DROPPED_HEADERS = {b"connection", b"transfer-encoding", b"keep-alive", b"date", b"server"}
_HEADERS_OF_ENCODED = {b"content-encoding", b"content-length"}

_UNUSABLE: Mapping[type[Exception], str] = {
    AnswerTooLarge: "too large",
    UndecodableBody: "not encoded as its header states",
}


async def while_connected(receive: Receive, answering: Coroutine[Any, Any, None]) -> None:
    """Answer a request; after a disconnect what is buffered is read, and the rest is cancelled.

    Raises `DropConnection` where something else has cancelled it.
    """
    task = asyncio.create_task(answering)
    try:
        first = await first_of(task, wait_for_disconnect(receive))
        if not task.done():
            await asyncio.wait({task}, timeout=DRAIN_S)
            # If the event loop was busy during the timeout, buffered data is still unread.
            for _ in range(DRAIN_TICKS):
                await asyncio.sleep(0)
    finally:
        if task.cancel():
            await run_to_completion(asyncio.wait({task}))
    if not task.cancelled():
        task.result()
    elif first is not None and first.index == 0:
        raise DropConnection


class Exchange:
    """One request and its response."""

    def __init__(
        self,
        provider: Upstream,
        scope: Scope,
        send: Send,
        *,
        offload: Offload,
        metrics: GatewayMetrics,
    ) -> None:
        """`offload` reads long prompts. The request was read completely before."""
        self._provider = provider
        self._metrics = metrics
        self._received_at = time.monotonic()
        self._offload = offload
        self._scope = scope
        self._send = send

    async def forward(self, path: str, body: bytes, *, call: Call | None) -> None:
        """Send the request and pass the response back; if this is cancelled the outcome is still recorded."""
        request = self._provider.request(
            path,
            body,
            self._scope["headers"],
            query=self._scope["query_string"],
            sent=None if call is None else partial(self._on_sent, call),
            profile_id=None if call is None else call.hooks.profile_id,
        )
        if call is not None:
            self._trace(call, request)
        try:
            await self._forward_request(request, call)
        finally:
            if call is not None:
                await self._finish(body, call)

    def _on_sent(self, call: Call) -> None:
        self._metrics.request_sent(after_s=time.monotonic() - self._received_at)
        call.on_sent()

    async def _finish(self, body: bytes, call: Call) -> None:
        try:
            if call.unanswered:
                await run_to_completion(self._charge_unanswered(body, call))
        finally:
            call.end_trace()

    async def _charge_unanswered(self, body: bytes, call: Call) -> None:
        call.on_no_answer(counted=await self._provider.count_prompt(body))

    async def _forward_request(self, request: httpx2.Request, call: Call | None) -> None:
        try:
            response = await self._provider.send(request)
        except httpx2.HTTPError as error:
            self._provider.availability.failed(reason_of(error))
            self._metrics.provider_unreachable()
            if call is not None:
                call.fail_trace(type(error).__name__)
            await send_error(self._send, UNREACHABLE)
            return
        except AppError as error:
            # It could not be recorded that the prompt was sent.
            raise DropConnection from error
        self._provider.availability.worked()
        if call is not None:
            self._metrics.provider_responded(response.status_code, response.headers, model=call.size.model)
        try:
            await self._forward_received(request, response, call)
        except (httpx2.HTTPError, AppError, AnswerTooLarge, MessageCutOff, UndecodableBody) as error:
            # The response was cut off, is unusable, or could not be recorded: cut it off for the agent, too.
            if call is not None:
                call.fail_trace(type(error).__name__)
            if (reason := _UNUSABLE.get(type(error))) is not None:
                self._block_run(call, reason)
            raise DropConnection from error
        finally:
            await response.aclose()

    def _trace(self, call: Call, request: httpx2.Request) -> None:
        """Begin the span of the call, and make it the parent of what the provider does."""
        call.start_trace(self.agent)
        if call.trace is not None:
            headers = call.trace.send_to(request.url.host, request.url.port, request.content)
            for name in _TRACE_HEADERS:
                request.headers.pop(name, None)
            request.headers.update(headers)

    @property
    def agent(self) -> str:
        """The id of the subagent that makes the call; empty for the main agent."""
        agent: bytes = dict(self._scope["headers"]).get(_AGENT_HEADER, b"")
        return agent.decode("latin-1")

    async def _forward_received(
        self, request: httpx2.Request, response: httpx2.Response, call: Call | None
    ) -> None:
        if call is not None and not response.is_success:
            call.fail_trace(str(response.status_code))
            call.on_refused()
        elif call is not None:
            # Only now, while the model works: reading a long prompt takes milliseconds.
            call.prompt = await self._read_prompt(request.content, call.hooks.evidence)
        decoder = body_decoder(response.headers.get("content-encoding", ""))
        if decoder is not None and (response.is_success or response.is_error):
            await self._forward_response(request, response, decoder, call)
        else:
            # A redirect would lead the agent elsewhere.
            self._block_run(call, "redirect" if decoder is not None else "unknown encoding")
            await send_error(self._send, UNUSABLE)

    async def _forward_response(
        self, request: httpx2.Request, response: httpx2.Response, decoder: BodyDecoder, call: Call | None
    ) -> None:
        await self._send(_start_event(response, decoder))
        async with aclosing(_decoded(response, decoder)) as chunks:
            if call is None:
                await self._send_part(await _whole(chunks))
            elif not response.is_success:
                await self._forward_error(response, await _whole(chunks), call, request.content)
            else:
                self._provider.refusals.accepted(call.size.model)
                pieces = chunks if call.trace is None else _traced(chunks, call.trace)
                await AnswerForwarder(response, call, self._provider, self._send).forward(pieces)
        await self._send({"type": "http.response.body", "body": b""})

    async def _read_prompt(self, body: bytes, evidence: PromptEvidence | None) -> AgentPrompt:
        read = partial(_read, body, self.agent, evidence)
        prompt, rendered = await self._offload.run(read, size=parsing_size(body))
        if evidence is not None and rendered is not None:
            evidence.add(rendered)
        return AgentPrompt(self.agent, prompt)

    def _block_run(self, call: Call | None, reason: str) -> None:
        log.error("gateway.response_unusable", reason=reason)
        if call is not None:
            # A retry would get the same response.
            call.block("answer")

    async def _forward_error(
        self, response: httpx2.Response, body: bytes, call: Call, request: bytes
    ) -> None:
        """What it means for the run is noted before the agent gets it."""
        if (code := refusal_code(response.status_code, body)) is not None:
            self._provider.refusals.refused(call.size.model, code)
            self._metrics.provider_refused(code)
            # Another call would be refused as well.
            call.block("provider")
        elif response.status_code in _INVALID:
            reason = body.decode(errors="replace")
            call.note_rejection(Rejection(response.status_code, reason, request))
        await self._send_part(body)

    async def _send_part(self, body: bytes) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


def _read(body: bytes, agent: str, evidence: PromptEvidence | None) -> tuple[CachedPrompt | None, str | None]:
    """The prompt of a request, and what operators get of it; None if the request cannot be read."""
    if (request := read_request(body)) is None:
        return None, None
    prompt = cached_prompt(request)
    return prompt, None if evidence is None else evidence.render(request, prompt, agent=agent)


async def _whole(chunks: AsyncIterator[bytes]) -> bytes:
    """A response that is no message; raises `AnswerTooLarge`."""
    body, time_slice = bytearray(), TimeSlice()
    async for chunk in chunks:
        body += chunk
        if len(body) > SMALL_BYTES:
            raise AnswerTooLarge
        await time_slice.checkpoint()
    return bytes(body)


async def _decoded(response: httpx2.Response, decoder: BodyDecoder) -> AsyncGenerator[bytes, None]:
    # Without what a client of httpx adds to each piece; the response is read once, and closed elsewhere.
    async for chunk in cast("httpx2.AsyncByteStream", response.stream):
        for piece in decoder.decode(chunk):
            yield piece


async def _traced(chunks: AsyncIterator[bytes], trace: ModelCall) -> AsyncGenerator[bytes, None]:
    async for chunk in chunks:
        trace.receive(chunk)
        yield chunk


def _start_event(response: httpx2.Response, decoder: BodyDecoder) -> dict[str, Any]:
    dropped = _DROPPED_HEADERS if decoder.is_identity else _DROPPED_HEADERS | _HEADERS_OF_ENCODED
    if "transfer-encoding" in response.headers:
        # It decides how long the body is, whatever length stands beside it.
        dropped = dropped | {b"content-length"}
    headers = [(name, value) for name, value in response.headers.raw if name.lower() not in dropped]
    return {"type": "http.response.start", "status": response.status_code, "headers": headers}
