import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import httpx
import pytest

from app.gateway.call import COUNTED, CallCost, Refusal
from app.gateway.cut_answer import BROKEN_OFF
from app.platform.server import loopback
from app.simulator.script import Hold, Reply, Text, in_turn
from app.simulator.server import Simulator
from app.usage.records import TokenUsage
from tests.e2e.stories import until
from tests.integration.gateway_seam import (
    FIRST_DELTA,
    MESSAGE_REQUEST,
    MESSAGE_STOP,
    MODEL,
    WORDS,
    Seam,
    gateway_to,
    read_into,
    read_to,
    the_seam,
)
from tests.patience import PATIENCE_S


async def test_a_provider_that_cannot_be_reached_is_a_502_worth_another_try() -> None:
    async with Simulator(in_turn()) as gone:
        pass
    async with gateway_to(gone.url) as seam:
        answer = await seam.send_message()

    assert answer.status_code == 502
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == "api_error"
    assert "x-should-retry" not in answer.headers
    assert seam.noted.closed == []


@pytest.mark.parametrize("cut_after", range(1, 8))
async def test_a_stream_that_drops_is_billed_as_far_as_it_came(cut_after: int) -> None:
    async with the_seam(in_turn(Reply([Text("one two three")], cut_after=cut_after))) as seam:
        read = bytearray()
        async with seam.stream() as response:
            with pytest.raises(httpx.RemoteProtocolError):
                await read_into(read, response.aiter_raw())
        await seam.gateway.close_channel(seam.channel)

    assert read.count(b"event: ") == cut_after
    (sent,) = seam.simulator.sent
    assert (seam.noted.last.message_id, seam.noted.last.complete) == (sent.message_id, False)
    assert seam.noted.last.usage.output_tokens == max(1, len(sent.sent_output.split()))


async def test_a_drop_before_anything_was_said_bills_the_prompt() -> None:
    async with the_seam(in_turn(Reply([Text(WORDS)], cut_after=0))) as seam:
        with pytest.raises(httpx.RemoteProtocolError):
            await seam.send_message()
        await seam.gateway.close_channel(seam.channel)

    (unanswered,) = seam.noted.closed
    assert (unanswered.message_id, unanswered.model, unanswered.note) == ("unanswered-1", MODEL, COUNTED)
    # As the scripted provider counts: two words, and the message itself.
    assert unanswered.usage == TokenUsage(input_tokens=9)
    assert (unanswered.complete, unanswered.output_estimated, unanswered.is_turn) == (False, True, False)
    assert seam.noted.opened == []


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
        await until(lambda: seam.simulator.sent[0].disconnected)
        await seam.gateway.close_channel(seam.channel)

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
        await until(lambda: seam.simulator.sent[0].disconnected)
        await until(lambda: len(seam.noted.closed) == 2)

    estimated, counted = seam.noted.closed
    assert (estimated.complete, counted.complete) == (False, False)
    assert (estimated.usage.output_tokens, counted.usage.output_tokens) == (4, 3)
    assert counted.usage.input_tokens == 10
    assert (counted.output_estimated, counted.whole_blocks) == (True, 0)
    assert seam.channel.messages[counted.message_id] is counted


async def test_an_agent_that_hangs_up_at_the_last_number_is_billed_by_it() -> None:
    hold = Hold(index=MESSAGE_STOP)
    async with the_seam(in_turn(Reply([Text(WORDS)], hold=hold))) as seam:
        async with seam.stream():
            await hold.reached.wait()
        await until(lambda: seam.simulator.sent[0].disconnected)
        await seam.gateway.close_channel(seam.channel)

    assert seam.simulator.sent[0].final_usage is not None
    assert [(message.complete, message.usage.output_tokens) for message in seam.noted.closed] == [(True, 20)]


async def test_a_call_whose_agent_hangs_up_while_it_waits_is_never_made() -> None:
    asked, given_up = asyncio.Event(), asyncio.Event()

    async def check(_cost: CallCost) -> Refusal | None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            given_up.set()
        return None

    async with the_seam(in_turn(Reply([Text(WORDS)]))) as seam:
        seam.channel.hooks = replace(seam.channel.hooks, check_credit=check)
        call = asyncio.create_task(seam.send_message())
        await asked.wait()
        call.cancel()
        async with asyncio.timeout(PATIENCE_S):
            await given_up.wait()
        await seam.gateway.close_channel(seam.channel)

    assert (seam.simulator.sent, seam.noted.sent) == ([], [])


async def test_closing_a_lane_hangs_up_and_notes_nothing_later() -> None:
    hold = Hold(index=FIRST_DELTA + 2)
    async with the_seam(in_turn(Reply([Text(WORDS)], hold=hold))) as seam, seam.stream() as response:
        chunks = response.aiter_raw()
        await anext(chunks)
        await hold.reached.wait()
        await seam.gateway.close_channel(seam.channel)
        noted = list(seam.noted.closed)

        assert seam.noted.last.usage.output_tokens == 2
        await until(lambda: seam.simulator.sent[0].disconnected)
        with pytest.raises(httpx.RemoteProtocolError):
            await read_into(bytearray(), chunks)

    assert seam.noted.closed == noted


@dataclass(slots=True)
class Slow:
    """A provider that begins an answer, and counts tokens only when it may."""

    may_count: asyncio.Event = field(default_factory=asyncio.Event)
    counting: asyncio.Event = field(default_factory=asyncio.Event)
    disconnected: asyncio.Event = field(default_factory=asyncio.Event)
    answer: bytes = b""

    async def __call__(self, scope: loopback.Scope, receive: loopback.Receive, send: loopback.Send) -> None:
        await loopback.read_body(receive)
        if scope["path"].endswith("count_tokens"):
            self.counting.set()
            await self.may_count.wait()
            await _send_part(send, b'{"input_tokens": 12}', more=False)
            return
        await _send_part(send, self.answer, kind=b"text/event-stream")
        await loopback.wait_for_disconnect(receive)
        self.disconnected.set()


async def _send_part(
    send: loopback.Send, body: bytes, *, kind: bytes = b"application/json", more: bool = True
) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    await send({"type": "http.response.body", "body": body, "more_body": more})


def a_start() -> bytes:
    message = {"id": "msg_1", "model": MODEL, "usage": {"input_tokens": 10, "output_tokens": 1}}
    return b"data: " + json.dumps({"type": "message_start", "message": message}).encode() + b"\n\n"


TEXT = b'data: {"type": "content_block_delta", "delta": {"text": "one two three"}}\n\n'


@asynccontextmanager
async def the_slow(answer: bytes) -> AsyncIterator[tuple[Slow, Seam]]:
    slow = Slow(answer=answer)
    async with loopback.serve_on_loopback(slow) as url, gateway_to(url) as seam:
        yield slow, seam
        slow.may_count.set()


async def test_the_provider_is_hung_up_on_before_anything_is_counted() -> None:
    async with the_slow(a_start() + TEXT) as (slow, seam):
        async with seam.stream() as response:
            await anext(response.aiter_raw())
        await slow.counting.wait()
        async with asyncio.timeout(PATIENCE_S):
            await slow.disconnected.wait()

        assert [message.output_estimated for message in seam.noted.closed] == [True]


async def test_a_lane_that_closes_while_tokens_are_counted_waits_for_the_count() -> None:
    async with the_slow(a_start() + TEXT) as (slow, seam):
        async with seam.stream() as response:
            await anext(response.aiter_raw())
        await slow.counting.wait()
        closing = asyncio.create_task(seam.gateway.close_channel(seam.channel))
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
        await seam.gateway.close_channel(seam.channel)

    assert {message.usage.output_tokens for message in seam.noted.closed} == {4}


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


async def test_what_the_agent_can_read_was_recorded_before() -> None:
    words = " ".join(["a"] * 90)
    async with the_seam(in_turn(Reply([Text(words)]))) as seam, seam.stream() as response:
        read, recorded = b"", [0]
        async for chunk in response.aiter_raw():
            read += chunk
            recorded += [message.usage.output_tokens for message in (*seam.noted.grown, *seam.noted.closed)]
            # A word is a delta and a token.
            assert read.count(b"text_delta") <= max(recorded)

    assert [message.usage.output_tokens for message in seam.noted.grown] == [16, 32, 48, 64, 80, 96]
    assert {message.message_id for message in seam.noted.grown} == {seam.noted.opened[0].message_id}


async def test_what_cannot_be_recorded_is_not_shown() -> None:
    hold = Hold(index=FIRST_DELTA)
    async with the_seam(in_turn(Reply([Text(WORDS)], hold=hold))) as seam, seam.stream() as response:
        chunks = response.aiter_raw()
        read = bytearray(await anext(chunks))
        await hold.reached.wait()
        seam.noted.full = True
        hold.until.set()
        with pytest.raises(httpx.RemoteProtocolError):
            await read_into(read, chunks)
        await seam.gateway.close_channel(seam.channel)

    assert b"message_start" in read
    assert b"content_block_delta" not in read
    # What had arrived together is charged, although none of it is shown.
    assert not seam.noted.last.complete
    assert 1 <= seam.noted.last.usage.output_tokens <= len(WORDS.split())


@asynccontextmanager
async def breaking_off(body: bytes) -> AsyncIterator[Seam]:
    """A provider that sends the beginning of an answer and closes the connection; it counts 12 tokens."""

    async def provider(scope: loopback.Scope, receive: loopback.Receive, send: loopback.Send) -> None:
        await loopback.read_body(receive)
        if scope["path"].endswith("count_tokens"):
            await _send_part(send, b'{"input_tokens": 12}', more=False)
            return
        await _send_part(send, body)
        raise loopback.DropConnection

    async with loopback.serve_on_loopback(provider) as url, gateway_to(url) as seam:
        yield seam


@pytest.mark.parametrize("line", [b"event: error", b"event:error"])
async def test_what_arrives_together_with_an_error_is_passed_on_without_it(line: bytes) -> None:
    error = b'data: {"type": "error", "error": {"type": "api_error", "message": "secret"}}'
    async with breaking_off(a_start() + TEXT + line + b"\n" + error + b"\n\n") as seam:
        read = bytearray()
        async with seam.stream() as response:
            with pytest.raises(httpx.RemoteProtocolError):
                await read_into(read, response.aiter_raw())
        await seam.gateway.close_channel(seam.channel)

    assert read == a_start() + TEXT
    assert not seam.noted.last.complete


async def test_an_answer_that_was_not_streamed_and_breaks_off_is_charged_as_far_as_it_came() -> None:
    answer = {"id": "msg_1", "type": "message", "model": MODEL, "content": [{"type": "text", "text": WORDS}]}
    async with breaking_off(json.dumps(answer).encode()[:-10]) as seam:
        with pytest.raises(httpx.RemoteProtocolError):
            await seam.send_message(MESSAGE_REQUEST)
        await seam.gateway.close_channel(seam.channel)

    assert [message.message_id for message in seam.noted.opened] == ["msg_1"]
    estimated, counted = seam.noted.closed
    assert (estimated.complete, counted.complete) == (False, False)
    assert (estimated.note, counted.note) == (BROKEN_OFF, BROKEN_OFF)
    assert estimated.usage.output_tokens == 5
    # The overhead of a message is counted, too: 12 of the shortest text are 11 of overhead.
    assert counted.usage == TokenUsage(input_tokens=12, output_tokens=1)


async def test_an_answer_that_breaks_off_before_its_id_is_charged_for_its_prompt() -> None:
    async with breaking_off(b'{"id": "msg_1", "type": "mess') as seam:
        with pytest.raises(httpx.RemoteProtocolError):
            await seam.send_message(MESSAGE_REQUEST)
        await seam.gateway.close_channel(seam.channel)

    (unanswered,) = seam.noted.closed
    assert (unanswered.message_id, unanswered.note) == ("unanswered-1", COUNTED)
    assert unanswered.usage == TokenUsage(input_tokens=12)
