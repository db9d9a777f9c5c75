"""The ways to get an answer that benchmarks compare: the SDK's, the official client's, Runtally's."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import anthropic
import httpx
from anthropic.types import MessageParam
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    Message,
    ResultMessage,
    StreamEvent,
    query,
)

PROMPT = "Say something short."
MODEL = "claude-sonnet-5-5"
CLAUDE, MESSAGES = "claude_agents:summarizer", "messages:summarizer"

_SYSTEM = "You are a helpful assistant."
_MAX_TOKENS = 1000
_SHOWN_BYTES = 300
_names = itertools.count()


class RunFailed(Exception):
    """Its value is what was received last."""


class Times(NamedTuple):
    """When the first text and the end of an answer came, in seconds of the performance counter."""

    first: float
    end: float


Run: TypeAlias = Callable[[int], Awaitable[Times]]
"""Gets one answer. Of several at a time each has a place, from 0; its parameter."""


def queried(model_url: str, directory: Path) -> Run:
    """The SDK's `query()`: a new CLI process for each answer."""
    return lambda place: _times(query(prompt=PROMPT, options=sdk_options(model_url, directory, place)))


def resumed(model_url: str, directory: Path) -> Run:
    """The SDK's `query()` as the next turn of a session: a new CLI process that resumes it."""
    sessions: dict[int, str] = {}

    async def run(place: int) -> Times:
        options = sdk_options(model_url, directory, place)
        messages = query(prompt=PROMPT, options=replace(options, resume=sessions.get(place)))
        return await _times(messages, ended=lambda result: sessions.update({place: result.session_id}))

    return run


@asynccontextmanager
async def connected(model_url: str, directory: Path, *, places: int) -> AsyncIterator[Run]:
    """The next turn of a `ClaudeSDKClient` that stays connected."""
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(ClaudeSDKClient(sdk_options(model_url, directory, place)))
            for place in range(places)
        ]

        async def run(place: int) -> Times:
            await clients[place].query(PROMPT)
            return await _times(clients[place].receive_response())

        yield run


def sdk_options(model_url: str, directory: Path, place: int) -> ClaudeAgentOptions:
    """The fastest options a careful user would choose.

    They are the ones Runtally uses, but with the environment that the SDK passes by default.
    """
    own = directory / f"sdk-{place}"
    own.mkdir(parents=True, exist_ok=True)
    return ClaudeAgentOptions(
        model=MODEL,
        system_prompt=_SYSTEM,
        tools=[],
        setting_sources=[],
        strict_mcp_config=True,
        permission_mode="dontAsk",
        thinking={"type": "disabled"},
        include_partial_messages=True,
        extra_args={"bare": None},
        cwd=own,
        env={
            "ANTHROPIC_API_KEY": "simulated",
            "ANTHROPIC_BASE_URL": model_url,
            "CLAUDE_CONFIG_DIR": str(own / "config"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )


async def _times(
    messages: AsyncIterator[Message], *, ended: Callable[[ResultMessage], None] = lambda _: None
) -> Times:
    first = end = 0.0
    async for message in messages:
        if not first and isinstance(message, StreamEvent) and "text" in message.event.get("delta", {}):
            first = time.perf_counter()
        if isinstance(message, ResultMessage):
            end = time.perf_counter()
            ended(message)
    return Times(first, end)


@asynccontextmanager
async def streamed(model_url: str) -> AsyncIterator[Run]:
    """One message by the official client, without an agent."""
    messages: list[MessageParam] = [{"role": "user", "content": PROMPT}]
    async with anthropic.AsyncAnthropic(api_key="simulated", base_url=model_url) as client:

        async def run(_: int) -> Times:
            first = 0.0
            async with client.messages.stream(
                model=MODEL, max_tokens=_MAX_TOKENS, system=_SYSTEM, messages=messages
            ) as stream:
                async for _text in stream.text_stream:
                    first = first or time.perf_counter()
            return Times(first, time.perf_counter())

        yield run


def alone(http: httpx.AsyncClient, graph: str = CLAUDE) -> Run:
    """A run of Runtally without a conversation."""
    return lambda _: posted(http, graph)


def next_turn(http: httpx.AsyncClient, graph: str = CLAUDE) -> Run:
    """The next turn of a conversation, of which each place has its own."""
    name = f"benchmark-{next(_names)}"
    return lambda place: posted(http, graph, state_key=f"{name}-{place}")


async def posted(
    http: httpx.AsyncClient,
    graph: str,
    *,
    state_key: str | None = None,
    prompt: str = PROMPT,
    started: asyncio.Event | None = None,
) -> Times:
    """One run of Runtally; `started` is set when its first text has come. Raises `RunFailed`.

    Events are not parsed: the time that a client needs for that is not what is measured.
    """
    body = {
        "graphId": graph,
        "model": MODEL,
        "messages": [{"role": "user", "content": prompt}],
        **({} if state_key is None else {"stateKey": state_key}),
    }
    first, received = 0.0, bytearray()
    async with http.stream("POST", "/v1/runs/stream", json=body) as response:
        async for chunk in response.aiter_raw():
            received += chunk
            if not first and b"event: text_delta" in received:
                first = time.perf_counter()
                if started is not None:
                    started.set()
    if b'"finishReason":"stop"' not in received:
        raise RunFailed(bytes(received[-_SHOWN_BYTES:]))
    return Times(first, time.perf_counter())


def called(http: httpx.AsyncClient, tools: int = 2, *, path: str = "/anthropic/v1/messages") -> Run:
    """A streamed message for a client's own agent, of which each place has its session.

    Raises `RunFailed` if it is refused.
    """
    schema = {"type": "object", "properties": {"city": {"type": "string", "description": "In English."}}}
    offered = [
        {"name": f"look_up_{number}", "description": "Looks up a city. " * 60, "input_schema": schema}
        for number in range(tools)
    ]
    body = {
        "model": MODEL,
        "max_tokens": _MAX_TOKENS,
        "stream": True,
        "system": [{"type": "text", "text": _SYSTEM, "cache_control": {"type": "ephemeral"}}],
        "tools": offered,
        "messages": [{"role": "user", "content": PROMPT}],
    }

    async def run(place: int) -> Times:
        first, received = 0.0, bytearray()
        session = {"x-claude-code-session-id": f"benchmark-{tools}-{place}"}
        async with http.stream("POST", path, json=body, headers=session) as response:
            async for chunk in response.aiter_raw():
                first = first or time.perf_counter()
                received += chunk
        if b"message_stop" not in received:
            raise RunFailed(bytes(received[-_SHOWN_BYTES:]))
        return Times(first, time.perf_counter())

    return run
