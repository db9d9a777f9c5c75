import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import httpx
import pytest

from app.errors import Unavailable
from app.gateway.lane import Lane, LaneLimits, LaneLinks, Refusal
from app.gateway.provider import Provider
from app.gateway.proxy import Gateway
from app.gateway.wire import MessageUsage
from app.loopback import Receive, Scope, Send, hung_up, listening, whole_body
from app.simulator.script import Hold, HttpError, Reply, Responder, Text, Thinking, ToolUse, in_turn
from app.simulator.server import Simulator
from app.usage import TokenUsage
from tests.e2e.stories import until

MODEL = "claude-haiku-5-5"
PROVIDER_KEY = "sk-of-the-provider"
PATIENCE_S = 20.0
ASKED: dict[str, Any] = {
    "model": MODEL,
    "max_tokens": 100,
    "messages": [{"role": "user", "content": "hello there"}],
}
STREAMED = {**ASKED, "stream": True}
WORDS = "one two three four five"
FULL = Reply(
    [Thinking("hm, let me see"), Text("Grüße aus 東京\n"), ToolUse("clock", {"zone": "UTC"})],
    usage={"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 7},
    final_usage={"output_tokens": 99},
)
FIRST_DELTA, MESSAGE_STOP = 3, 10
"""Where they are among the events of a reply that says WORDS."""
AGENTS = {"authorization": "Bearer agents-own", "x-api-key": "agents-own", "anthropic-version": "2023-06-01"}


@dataclass(slots=True)
class Noted:
    """What billing was told, in order."""

    opened: list[MessageUsage] = field(default_factory=list)
    closed: list[MessageUsage] = field(default_factory=list)
    objection: Refusal | None = None
    full: bool = False
    """Nothing can be noted that nobody has read yet."""

    def open(self, message: MessageUsage) -> None:
        if self.full:
            raise Unavailable
        self.opened.append(message)

    async def object(self) -> Refusal | None:
        return self.objection

    @property
    def last(self) -> MessageUsage:
        return self.closed[-1]

    def links(self) -> LaneLinks:
        return LaneLinks(
            cost_of=lambda _model, usage: Decimal(usage.total_tokens),
            objection=self.object,
            opened=self.open,
            closed=self.closed.append,
        )


@dataclass(frozen=True, slots=True)
class Seam:
    """An agent, the gateway, and the simulator behind it."""

    agent: httpx.AsyncClient
    simulator: Simulator
    gateway: Gateway
    noted: Noted
    lane: Lane

    def lane_of(self, **limits: Any) -> Lane:
        deadline = asyncio.get_running_loop().time() + 60
        return self.gateway.open("run-1", LaneLimits(deadline, **limits), self.noted.links())

    async def ask(self, asked: dict[str, Any] = STREAMED, **options: Any) -> httpx.Response:
        return await self.agent.post(f"{self.lane.url}/v1/messages", json=asked, headers=AGENTS, **options)

    def stream(self, asked: dict[str, Any] = STREAMED) -> Any:
        return self.agent.stream("POST", f"{self.lane.url}/v1/messages", json=asked, headers=AGENTS)


@asynccontextmanager
async def gateway_to(url: str, simulator: Simulator | None = None) -> AsyncIterator[Seam]:
    async with (
        Provider(base_url=url, api_key=PROVIDER_KEY) as provider,
        Gateway(provider) as gateway,
        httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as agent,
    ):
        noted = Noted()
        deadline = asyncio.get_running_loop().time() + 60
        lane = gateway.open("run-1", LaneLimits(deadline), noted.links())
        yield Seam(agent, simulator or Simulator(in_turn()), gateway, noted, lane)


@asynccontextmanager
async def the_seam(responder: Responder, **options: Any) -> AsyncIterator[Seam]:
    async with (
        Simulator(responder, **options) as simulator,
        gateway_to(simulator.url, simulator) as seam,
    ):
        yield seam


async def read_to(response: httpx.Response, event: str) -> None:
    """Read on until an event has come."""
    read = b""
    async for chunk in response.aiter_raw():
        read += chunk
        if f"event: {event}\n".encode() in read:
            return


async def read_into(read: bytearray, chunks: AsyncIterator[bytes]) -> None:
    async for chunk in chunks:
        read += chunk


def said(response: httpx.Response) -> tuple[int, bytes, list[tuple[str, str]]]:
    """What an agent can tell of an answer."""
    ours = {"transfer-encoding", "date", "server", "connection"}
    headers = sorted((name, value) for name, value in response.headers.items() if name not in ours)
    return response.status_code, response.content, headers


@pytest.mark.parametrize("asked", [ASKED, STREAMED], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    "answer",
    [
        FULL,
        Reply([]),
        Reply([Text("x" * 200_000)]),
        Reply([Text(WORDS)], error_after=(4, "overloaded_error")),
        HttpError(400, "invalid_request_error", "prompt is too long"),
        HttpError(429, "rate_limit_error", headers={"retry-after": "7", "request-id": "req_429"}),
        HttpError(529, "overloaded_error", headers={"x-should-retry": "true"}),
        HttpError(500),
    ],
    ids=["full", "empty", "long", "error event", "400", "429", "529", "500"],
)
async def test_an_agent_hears_what_it_would_hear_without_a_gateway(
    answer: Reply | HttpError, asked: dict[str, Any]
) -> None:
    async with the_seam(lambda _: answer) as seam:
        through = await seam.ask(asked)
        direct = await seam.agent.post(f"{seam.simulator.url}/v1/messages", json=asked)

    assert said(through) == said(direct)
    if isinstance(answer, HttpError):
        assert (through.status_code, seam.noted.closed) == (answer.status, [])


@pytest.mark.parametrize("asked", [ASKED, STREAMED], ids=["whole", "streamed"])
async def test_a_message_is_closed_with_its_last_number(asked: dict[str, Any]) -> None:
    async with the_seam(in_turn(FULL)) as seam:
        await seam.ask(asked)

    message = seam.noted.last
    assert message.usage == TokenUsage(input_tokens=10, output_tokens=99, cache_read_tokens=7)
    assert (message.message_id, message.model) == (FULL.message_id, MODEL)
    assert (message.complete, message.output_estimated, message.whole_blocks) == (True, False, 3)
    assert len(seam.noted.closed) == 1
    # What is not streamed is noted whole, before any of it is passed on.
    assert len(seam.noted.opened) == (asked == STREAMED)
    assert list(seam.lane.messages) == [FULL.message_id]


async def test_the_providers_key_is_added_and_the_agents_own_goes_no_further() -> None:
    async with the_seam(in_turn(FULL), accepted_keys=frozenset({PROVIDER_KEY})) as seam:
        seam.agent.headers["proxy-authorization"] = "Basic agents-own"
        seam.agent.headers["anthropic-beta"] = "one,two"
        seam.agent.cookies.set("session", "agents-own")
        answer = await seam.ask(params={"beta": "true"})

    assert answer.status_code == 200
    (request,) = seam.simulator.requests
    assert request.headers["x-api-key"] == PROVIDER_KEY
    assert request.headers["anthropic-beta"] == "one,two"
    assert request.headers["anthropic-version"] == "2023-06-01"
    assert request.body == STREAMED
    assert "agents-own" not in str(request.headers)
    assert seam.lane.token not in str(request.headers)


async def test_a_request_in_chunks_arrives_whole() -> None:
    async def pieces() -> AsyncIterator[bytes]:
        body = json.dumps(STREAMED).encode()
        for start in range(0, len(body), 10):
            yield body[start : start + 10]

    async with the_seam(in_turn(FULL)) as seam:
        answer = await seam.agent.post(f"{seam.lane.url}/v1/messages", content=pieces())

    assert answer.status_code == 200
    (request,) = seam.simulator.requests
    assert request.body == STREAMED
    assert "transfer-encoding" not in request.headers
    assert int(request.headers["content-length"]) == len(json.dumps(STREAMED))


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/messages"),
        ("HEAD", "/"),
        ("POST", "/v1/models"),
        ("GET", "/v1/models"),
        ("POST", "/v1/messages/batches"),
        ("POST", "/v1/messages/"),
        ("POST", "/V1/messages"),
        ("PUT", "/v1/messages"),
        ("POST", ""),
    ],
)
async def test_nothing_else_is_passed_on(method: str, path: str) -> None:
    async with the_seam(in_turn(FULL)) as seam:
        answer = await seam.agent.request(method, seam.lane.url + path, content=json.dumps(ASKED))

    assert answer.status_code == 404
    assert seam.simulator.requests == []
    if method != "HEAD":
        assert answer.json()["error"]["type"] == "not_found_error"


async def test_a_token_is_worth_nothing_before_or_after_its_run() -> None:
    async with the_seam(in_turn(FULL)) as seam:
        await seam.gateway.close(seam.lane)
        ended = await seam.ask()
        counted = await seam.agent.post(f"{seam.lane.url}/v1/messages/count_tokens", json=ASKED)
        base = seam.lane.url.removesuffix(seam.lane.token)
        guessed = await seam.agent.post(f"{base}guess/v1/messages", json=ASKED)

    assert [answer.status_code for answer in (ended, counted, guessed)] == [403] * 3
    assert ended.json()["error"]["type"] == "permission_error"
    assert ended.headers["x-should-retry"] == "false"
    assert seam.simulator.requests == []


async def test_a_call_beyond_its_limits_never_reaches_the_provider() -> None:
    async with the_seam(lambda _: Reply([Text("hi")])) as seam:
        lane = seam.lane_of(max_turns=1)
        answers = [await seam.agent.post(f"{lane.url}/v1/messages", json=STREAMED) for _ in range(2)]
        seam.noted.objection = "credit"
        answers.append(await seam.ask())

    assert [answer.status_code for answer in answers] == [200, 402, 402]
    assert answers[-1].json()["error"]["type"] == "billing_error"
    assert answers[-1].headers["x-should-retry"] == "false"
    assert len(seam.simulator.requests) == 1
    assert (lane.refused, seam.lane.refused) == ("turns", "credit")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"model": "m", "max_tokens": Infinity}', b"\xff"])
async def test_a_body_without_sense_is_the_providers_to_refuse(body: bytes) -> None:
    heard: list[bytes] = []

    async def refuse(_scope: Scope, receive: Receive, send: Send) -> None:
        heard.append(await whole_body(receive))
        await send({"type": "http.response.start", "status": 400, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    async with listening(refuse) as url, gateway_to(url) as seam:
        lane = seam.lane_of(max_total_tokens=100)
        answer = await seam.agent.post(f"{lane.url}/v1/messages", content=body)

    assert (answer.status_code, answer.content) == (400, b"no")
    assert heard == [body]


async def test_a_provider_that_cannot_be_reached_is_a_502_worth_another_try() -> None:
    async with Simulator(in_turn()) as gone:
        pass
    async with gateway_to(gone.url) as seam:
        answer = await seam.ask()

    assert answer.status_code == 502
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == "api_error"
    assert "x-should-retry" not in answer.headers
    assert seam.noted.closed == []


@pytest.mark.parametrize("cut_after", range(1, 9))
async def test_a_stream_that_drops_reaches_the_agent_as_a_drop(cut_after: int) -> None:
    async with the_seam(in_turn(Reply([Text("one two three")], cut_after=cut_after))) as seam:
        read = bytearray()
        async with seam.stream() as response:
            with pytest.raises(httpx.RemoteProtocolError):
                await read_into(read, response.aiter_raw())
        await seam.gateway.close(seam.lane)

    assert read.count(b"event: ") == cut_after
    (sent,) = seam.simulator.sent
    message = seam.noted.last
    assert (message.message_id, message.complete) == (sent.message_id, cut_after > 7)
    words = len(sent.sent_output.split())
    assert message.usage.output_tokens == (20 if cut_after > 7 else max(1, words))


async def test_a_drop_before_anything_was_said_bills_nothing() -> None:
    async with the_seam(in_turn(Reply([Text(WORDS)], cut_after=0))) as seam:
        with pytest.raises(httpx.RemoteProtocolError):
            await seam.ask()

    assert (seam.noted.opened, seam.noted.closed) == ([], [])


async def test_a_message_is_noted_before_the_agent_can_read_that_it_began() -> None:
    noted_when_read: list[int] = []
    async with the_seam(lambda _: Reply([Text(WORDS)])) as seam:
        for _ in range(20):
            async with seam.stream() as response:
                await read_to(response, "message_start")
                noted_when_read.append(len(seam.noted.opened))
    assert not any(message.complete for message in seam.noted.opened)

    assert noted_when_read == list(range(1, 21))


async def test_a_message_that_cannot_be_noted_is_never_shown_and_still_billed() -> None:
    hold = Hold(index=FIRST_DELTA)
    async with the_seam(in_turn(Reply([Text(WORDS)], hold=hold))) as seam:
        seam.noted.full = True
        read = bytearray()
        async with seam.stream() as response:
            with pytest.raises(httpx.RemoteProtocolError):
                await read_into(read, response.aiter_raw())
        await until(lambda: seam.simulator.sent[0].hung_up)
        await seam.gateway.close(seam.lane)

    assert read == b""
    assert (seam.noted.last.message_id, seam.noted.last.complete) == (
        seam.simulator.sent[0].message_id,
        False,
    )


async def test_the_last_number_is_noted_before_the_agent_can_read_it() -> None:
    hold = Hold(index=MESSAGE_STOP)
    async with the_seam(in_turn(Reply([Text(WORDS)], hold=hold))) as seam, seam.stream() as response:
        await read_to(response, "message_delta")
        assert [message.complete for message in seam.noted.closed] == [True]
        hold.until.set()


async def test_an_agent_that_hangs_up_ends_the_providers_work_and_is_billed_what_it_was_sent() -> None:
    hold = Hold(index=FIRST_DELTA + 3)
    async with the_seam(in_turn(Reply([Text(WORDS)], hold=hold))) as seam:
        async with seam.stream() as response:
            await anext(response.aiter_raw())
            await hold.reached.wait()
        async with asyncio.timeout(1):
            await until(lambda: seam.simulator.sent[0].hung_up)
        await until(lambda: len(seam.noted.closed) == 2)

    estimated, counted = seam.noted.closed
    assert (estimated.complete, counted.complete) == (False, False)
    assert (estimated.usage.output_tokens, counted.usage.output_tokens) == (4, 3)
    assert counted.usage.input_tokens == 10
    assert (counted.output_estimated, counted.whole_blocks) == (True, 0)
    assert seam.lane.messages[counted.message_id] is counted


async def test_an_agent_that_hangs_up_at_the_last_number_is_billed_by_it() -> None:
    hold = Hold(index=MESSAGE_STOP)
    async with the_seam(in_turn(Reply([Text(WORDS)], hold=hold))) as seam:
        async with seam.stream():
            await hold.reached.wait()
        await until(lambda: seam.simulator.sent[0].hung_up)
        await seam.gateway.close(seam.lane)

    assert seam.simulator.sent[0].final_usage is not None
    assert [(message.complete, message.usage.output_tokens) for message in seam.noted.closed] == [(True, 20)]


async def test_closing_a_lane_hangs_up_and_notes_nothing_later() -> None:
    hold = Hold(index=FIRST_DELTA + 2)
    async with the_seam(in_turn(Reply([Text(WORDS)], hold=hold))) as seam, seam.stream() as response:
        chunks = response.aiter_raw()
        await anext(chunks)
        await hold.reached.wait()
        await seam.gateway.close(seam.lane)
        noted = list(seam.noted.closed)

        assert seam.noted.last.usage.output_tokens == 2
        await until(lambda: seam.simulator.sent[0].hung_up)
        with pytest.raises(httpx.RemoteProtocolError):
            await read_into(bytearray(), chunks)

    assert seam.noted.closed == noted


@dataclass(slots=True)
class Slow:
    """A provider that begins an answer, and counts tokens only when it may."""

    may_count: asyncio.Event = field(default_factory=asyncio.Event)
    counting: asyncio.Event = field(default_factory=asyncio.Event)
    hung_up: asyncio.Event = field(default_factory=asyncio.Event)
    answer: bytes = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await whole_body(receive)
        if scope["path"].endswith("count_tokens"):
            self.counting.set()
            await self.may_count.wait()
            await _say(send, b'{"input_tokens": 12}', more=False)
            return
        await _say(send, self.answer, kind=b"text/event-stream")
        await hung_up(receive)
        self.hung_up.set()


async def _say(send: Send, body: bytes, *, kind: bytes = b"application/json", more: bool = True) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": body, "more_body": more})


def a_start(message_id: str = "msg_1") -> bytes:
    message = {"id": message_id, "model": MODEL, "usage": {"input_tokens": 10, "output_tokens": 1}}
    return b"data: " + json.dumps({"type": "message_start", "message": message}).encode() + b"\n\n"


TEXT = b'data: {"type": "content_block_delta", "delta": {"text": "one two three"}}\n\n'


@asynccontextmanager
async def the_slow(answer: bytes) -> AsyncIterator[tuple[Slow, Seam]]:
    slow = Slow(answer=answer)
    async with listening(slow) as url, gateway_to(url) as seam:
        yield slow, seam
        slow.may_count.set()


async def test_the_provider_is_hung_up_on_before_anything_is_counted() -> None:
    async with the_slow(a_start() + TEXT) as (slow, seam):
        async with seam.stream() as response:
            await anext(response.aiter_raw())
        await slow.counting.wait()
        async with asyncio.timeout(1):
            await slow.hung_up.wait()

        assert [message.output_estimated for message in seam.noted.closed] == [True]


async def test_a_lane_that_closes_while_tokens_are_counted_waits_for_the_count() -> None:
    async with the_slow(a_start() + TEXT) as (slow, seam):
        async with seam.stream() as response:
            await anext(response.aiter_raw())
        await slow.counting.wait()
        closing = asyncio.create_task(seam.gateway.close(seam.lane))
        await asyncio.sleep(1.2)
        early = closing.done()
        slow.may_count.set()
        await closing
        noted = list(seam.noted.closed)
        await asyncio.sleep(0.1)

    assert not early
    assert len(noted) == 2
    assert seam.noted.closed == noted


async def test_a_provider_that_does_not_count_leaves_the_estimate() -> None:
    async with the_slow(a_start() + TEXT) as (_, seam):
        async with seam.stream() as response:
            await anext(response.aiter_raw())
        await until(lambda: bool(seam.noted.closed))
        await seam.gateway.close(seam.lane)

    assert {message.usage.output_tokens for message in seam.noted.closed} == {4}


async def test_lines_nobody_understands_reach_the_agent_and_the_rest_is_billed() -> None:
    garbage = b'data: {"type": "content_block_delta"\n\ndata: \xff\xfe\n\ndata: [DONE]\n\n'
    async with the_slow(garbage + a_start() + garbage + TEXT + garbage) as (slow, seam):
        async with seam.stream() as response:
            read = b""
            async for chunk in response.aiter_raw():
                read += chunk
                if len(read) == len(slow.answer):
                    break
        slow.may_count.set()
        await until(lambda: bool(seam.noted.closed))
        await seam.gateway.close(seam.lane)

    assert read == slow.answer
    assert (seam.noted.last.message_id, seam.noted.last.usage.input_tokens) == ("msg_1", 10)


async def test_counting_tokens_is_passed_on_and_costs_nothing() -> None:
    async with the_seam(in_turn(), accepted_keys=frozenset({PROVIDER_KEY})) as seam:
        lane = seam.lane_of(max_turns=0)
        answer = await seam.agent.post(f"{lane.url}/v1/messages/count_tokens?beta=true", json=ASKED)

    assert (answer.status_code, answer.json()) == (200, {"input_tokens": 9})
    assert (seam.noted.opened, seam.noted.closed, lane.messages, lane.refused) == ([], [], {}, None)


async def test_a_slow_reader_slows_the_provider_and_fills_no_memory() -> None:
    text = ("x" * 200_000 + " ") * 150
    reply = Reply([Text(text)])
    async with the_seam(in_turn(reply)) as seam, seam.stream() as response:
        chunks = response.aiter_raw()
        read = bytearray(await anext(chunks))
        sent = await _stands_still(lambda: len(seam.simulator.sent[0].sent_output))

        assert sent < len(text) / 2
        assert not seam.noted.closed
        await read_into(read, chunks)

    assert len(read) > len(text)
    assert read.endswith(b'data: {"type": "message_stop"}\n\n')
    assert seam.noted.last.complete


async def _stands_still(number: Callable[[], int]) -> int:
    """A number once it has not changed for a while."""
    before = -1
    async with asyncio.timeout(PATIENCE_S):
        while before != number():
            before = number()
            await asyncio.sleep(0.3)
    return before


async def test_many_agents_are_answered_at_once_and_not_mixed_up() -> None:
    def echo(request: Any) -> Reply:
        return Reply([Text(request.last_text)], delta_delay_s=0.001)

    async with the_seam(echo) as seam:

        async def ask(number: int) -> None:
            lane = seam.lane_of()
            prompt = {"role": "user", "content": f"say number-{number} again"}
            answer = await seam.agent.post(f"{lane.url}/v1/messages", json={**STREAMED, "messages": [prompt]})
            assert f"number-{number}" in answer.text
            assert len(lane.messages) == 1
            assert next(iter(lane.messages)) in answer.text

        await asyncio.gather(*map(ask, range(50)))

    assert len({message.message_id for message in seam.noted.closed}) == 50
