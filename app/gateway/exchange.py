"""Exchange: forwards one request of an agent and records the usage of the response."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, TypeVar

import httpx
import structlog

from app.background import first_of
from app.concurrency.offload import Offload
from app.concurrency.time_slice import TimeSlice
from app.errors import AppError
from app.gateway.call import Call
from app.gateway.error_responses import UNREACHABLE, UNUSABLE, send_error
from app.gateway.upstream import Upstream
from app.gateway.wire import MAX_JSON_BYTES, AnswerTooLarge, StreamFold, parse_message
from app.prompt_cache.prompt import AgentPrompt, read_prompt
from app.serialization.storable import identifier
from app.server.loopback import DropConnection, Receive, Scope, Send, wait_for_disconnect
from app.usage import ProviderCall

log = structlog.get_logger(__name__)
Result = TypeVar("Result")

DRAIN_S = 0.02
"""How long buffered data of the provider is read after the agent disconnected."""

DRAIN_TICKS = 20
"""The same limit in iterations of the event loop, each of which may read a chunk."""

SMALL_BYTES = 1024 * 1024
"""Limit of a response that is no message: an error, or a token count."""

_AGENT_HEADER = b"x-claude-code-agent-id"
"""Names the subagent that makes a call; the main agent sends none."""

_DROPPED_HEADERS = {b"connection", b"transfer-encoding", b"keep-alive", b"date", b"server"}


class Exchange:
    """One request and its response."""

    def __init__(
        self, provider: Upstream, scope: Scope, receive: Receive, send: Send, *, offload: Offload
    ) -> None:
        """`offload` reads long prompts."""
        self._provider = provider
        self._offload = offload
        self._scope = scope
        self._receive = receive
        self._send = send

    async def forward(self, path: str, body: bytes, *, call: Call | None) -> None:
        """Send the request and pass the response back; after a disconnect, read what is buffered."""
        request = self._provider.request(
            path,
            body,
            self._scope["headers"],
            query=self._scope["query_string"],
            sent=None if call is None else call.on_sent,
        )
        forwarding = asyncio.create_task(self._forward_request(request, call))
        try:
            await first_of(asyncio.wait({forwarding}), wait_for_disconnect(self._receive))
            if not forwarding.done():
                await asyncio.wait({forwarding}, timeout=DRAIN_S)
                # If the event loop was busy during the timeout, buffered data is still unread.
                for _ in range(DRAIN_TICKS):
                    await asyncio.sleep(0)
        finally:
            forwarding.cancel()
            # The usage must be recorded before the call ends, even if we are cancelled meanwhile.
            await _run_to_completion(self._finish(forwarding, body, call))
        if not forwarding.cancelled() and (error := forwarding.exception()) is not None:
            raise error

    async def _finish(self, forwarding: asyncio.Task[None], body: bytes, call: Call | None) -> None:
        await asyncio.wait({forwarding})
        if call is not None and call.unanswered:
            call.on_no_answer(counted=await self._provider.count_prompt(body))

    async def _forward_request(self, request: httpx.Request, call: Call | None) -> None:
        try:
            response = await self._provider.send(request)
        except httpx.HTTPError as error:
            log.warning("gateway.provider_unreachable", reason=type(error).__name__)
            await send_error(self._send, UNREACHABLE)
            return
        except AppError as error:
            # It could not be recorded that the prompt was sent.
            raise DropConnection from error
        try:
            if call is not None and not response.is_success:
                call.on_refused()
            elif call is not None:
                # Only now, while the model works: reading a long prompt takes milliseconds.
                call.prompt = await self._read_prompt(request.content)
            if _is_usable(response):
                await self._forward_response(response, call)
            else:
                self._block_run(call, "redirect or compressed")
                await send_error(self._send, UNUSABLE)
        except (httpx.HTTPError, AppError, AnswerTooLarge) as error:
            # The response was cut off, is too large, or could not be recorded: cut it off for the agent, too.
            if isinstance(error, AnswerTooLarge):
                self._block_run(call, "too large")
            raise DropConnection from error
        finally:
            await response.aclose()

    async def _forward_response(self, response: httpx.Response, call: Call | None) -> None:
        await self._send(_start_event(response))
        if call is None or not response.is_success:
            await self._forward_bytes(response)
        elif response.headers.get("content-type", "").startswith("text/event-stream"):
            await self._forward_stream(response, call)
        else:
            await self._forward_json(response, call)
        await self._send({"type": "http.response.body", "body": b""})

    async def _read_prompt(self, body: bytes) -> AgentPrompt:
        headers = dict(self._scope["headers"])
        agent = headers.get(_AGENT_HEADER, b"").decode("latin-1")
        return AgentPrompt(agent, await self._offload.run(partial(read_prompt, body), size=len(body)))

    def _block_run(self, call: Call | None, reason: str) -> None:
        log.error("gateway.response_unusable", reason=reason)
        if call is not None:
            # A retry would get the same response.
            call.block("answer")

    async def _forward_bytes(self, response: httpx.Response) -> None:
        passed, time_slice = 0, TimeSlice()
        async for chunk in response.aiter_raw():
            passed += len(chunk)
            if passed > SMALL_BYTES:
                raise AnswerTooLarge
            await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
            await time_slice.checkpoint()

    async def _forward_stream(self, response: httpx.Response, call: Call) -> None:
        fold = StreamFold(_provider_call(response, call), call.size.maximum.output_tokens)
        time_slice = TimeSlice()
        try:
            async for chunk in response.aiter_raw():
                if fold.feed(chunk) and fold.message is not None:
                    # Record before the agent can read it.
                    (call.on_usage if fold.message.complete else call.on_start)(fold.message)
                await self._send({"type": "http.response.body", "body": chunk, "more_body": True})
                await time_slice.checkpoint()
        finally:
            recorded, message = fold.message, fold.finish()
            if message is not None and message is not recorded:
                call.on_usage(message)
            if message is not None and not message.complete:
                await _run_to_completion(self._count_output(response, fold, call))
            if fold.failed:
                call.on_refused()

    async def _count_output(self, response: httpx.Response, fold: StreamFold, call: Call) -> None:
        """Record the output of a truncated message, counted by the provider."""
        # First, so that the provider stops generating output.
        await response.aclose()
        message = fold.finish()
        if message is not None:
            count = await self._provider.count(message.model, fold.received())
            call.on_usage(fold.finish(counted=count) or message)

    async def _forward_json(self, response: httpx.Response, call: Call) -> None:
        # The agent cannot use half a JSON object, so it gets all of it once it is recorded.
        body, time_slice = bytearray(), TimeSlice()
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_JSON_BYTES:
                raise AnswerTooLarge
            await time_slice.checkpoint()
        provider_call = _provider_call(response, call)
        message = parse_message(bytes(body), call=provider_call)
        if message is None:
            log.error("gateway.response_unparsable", request_id=provider_call.provider_request_id)
        else:
            call.on_usage(message)
        await self._send({"type": "http.response.body", "body": bytes(body), "more_body": True})


def _provider_call(response: httpx.Response, call: Call) -> ProviderCall:
    """What the headers say about the call; the ids name it to the provider's support and in its reports."""

    def header(name: str) -> str | None:
        value = response.headers.get(name)
        return identifier(value) if value else None

    return ProviderCall(
        requested_model=call.size.model,
        provider_request_id=header("request-id"),
        provider_organization_id=header("anthropic-organization-id"),
        provider_workspace_id=header("anthropic-workspace-id"),
    )


def _is_usable(response: httpx.Response) -> bool:
    """Neither a redirect to another address nor compressed, which could expand to a huge size."""
    encoding = response.headers.get("content-encoding", "identity").lower()
    return encoding == "identity" and (response.is_success or response.is_error)


def _start_event(response: httpx.Response) -> dict[str, Any]:
    return {
        "type": "http.response.start",
        "status": response.status_code,
        "headers": [
            (name, value) for name, value in response.headers.raw if name.lower() not in _DROPPED_HEADERS
        ],
    }


async def _run_to_completion(work: Coroutine[Any, Any, Result]) -> Result:
    """Finish the work even if we are cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.create_task(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()
