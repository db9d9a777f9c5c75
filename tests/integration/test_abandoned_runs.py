"""Runs of chats that wait for a client tool while the next message waits for them."""

from app.auth.records import KeyRecord
from app.conversations.repository import take_turn
from app.executors.port import ABORTED, ExecutionFailed, RunContext
from app.ids import RunId, RunKey, new_uuid
from app.platform.background import first_of
from app.platform.db import Database
from app.requests.principal import Principal
from app.runs.records import NewRun
from app.runs.requests.posted import MessageOrigin
from app.runs.unanswered_tools.repository import abandoned_runs
from app.runs.unanswered_tools.service import AbandonedRuns
from tests.e2e.stories import until
from tests.factories import a_new_turn, an_unused_database
from tests.integration.commanded import ended
from tests.integration.conversations import end_run
from tests.integration.run_process import GRAPH, Executing, insert
from tests.integration.run_service import RETRIED, OpenCore, a_lost_run, a_request
from tests.integration.statements import execute


async def a_turn(database: Database, key: KeyRecord, name: str, message_id: str | None) -> RunKey:
    """A run of the conversation that its name begins with."""
    run = RunKey(key.account_id, RunId(name))
    state_key, _, _ = name.partition("/")
    async with database.transaction() as tx:
        chat = await take_turn(tx, key.account_id, a_new_turn(state_key))
        new = NewRun(run, key.id, GRAPH, "m", "{}", "", b"", None, new_uuid(), chat, message_id=message_id)
        await insert(tx, new)
    return run


async def test_only_a_chats_run_is_abandoned_and_only_for_a_later_message_that_waits(
    database: Database, key: KeyRecord
) -> None:
    turns = {
        "left/1": "m1",
        "left/2": "m2",
        "not-left/1": "m1",
        "api-after-chat/1": "m1",
        "api-after-chat/2": None,
        "chat-after-api/1": None,
        "chat-after-api/2": "m2",
        "next-has-ended/1": "m1",
        "next-has-ended/2": "m2",
    }
    runs = [await a_turn(database, key, name, message_id) for name, message_id in turns.items()]
    await end_run(database, runs[-1])

    async with database.read() as reader:
        assert await abandoned_runs(reader, runs) == [RunKey(key.account_id, RunId("left/1"))]
        assert await abandoned_runs(reader, runs[1:]) == []


async def test_a_run_is_abandoned_also_by_its_next_attempt(open_core: OpenCore, database: Database) -> None:
    """Its process died before its call, and the next message came meanwhile."""
    calling: list[RunContext] = []

    async def do(context: RunContext) -> None:
        if context.plan.attempt == 0:
            return
        calling.append(context)
        call = context.control.client_calls.call("confirm", {}, call_id="call-1")
        first = await first_of(context.control.stop.wait(), call)
        if first is not None and first.index == 0:
            raise ExecutionFailed(*ABORTED)

    async with open_core(executor=Executing(do)) as core:
        run = await a_lost_run(core, RETRIED, "chat")
        await execute(database, "UPDATE runs SET message_id = 'm1'")
        idle = AbandonedRuns(an_unused_database(), core.process.supervisor)
        abandoned = AbandonedRuns(database, core.process.supervisor)
        await idle.check()
        await core.recovery.recover()
        await until(lambda: bool(calling) and calling[0].control.client_calls.calls.is_waiting)
        await abandoned.check()
        before = calling[0].control.stop.is_set()
        record = await core.service.get(run)
        caller = Principal(run.account_id, record.api_key_id, frozenset({"runs:write", "runs:read"}))
        later = await core.service.start(
            caller,
            a_request(RETRIED, state_key="chat"),
            request_id=None,
            origin=MessageOrigin(message_id="m2"),
        )

        await abandoned.check()

        assert ((await ended(database, run)).status, before) == ("cancelled", False)
        assert (await core.service.wait(later.key)).ok
        assert (await core.service.get(run)).is_cancelled
