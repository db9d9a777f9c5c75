"""Messages of chats: which are known and have answers, and which runs wait for calls of their clients."""

from itertools import islice

import pytest
from sqlalchemy import text

from app.auth.records import KeyRecord
from app.conversations.branching.placement import KnownMessages
from app.conversations.records import TranscriptEntry
from app.conversations.transcript_store import TranscriptStore
from app.executors.client_calls import ClientToolResult
from app.executors.port import RunContext
from app.graphs.catalog import GraphCatalog
from app.ids import RunId
from app.platform.concurrency.offload import Offload
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.runs.chats import Chat, answer_ids, latest_answer
from app.runs.client_tools.service import ClientToolRuns
from app.runs.conversations.known_messages import known_messages
from app.runs.requests.schema_preparation import SchemaPreparation
from runtally.tools.result import ToolResult
from tests.e2e.stories import until
from tests.factories import an_account
from tests.integration.conversations import KEY, a_turn, conversations_over
from tests.integration.run_process import GRAPH, Executing
from tests.integration.run_service import RETRIED, OpenCore, caller_of
from tests.integration.statements import execute, noted


async def test_a_message_without_its_answer_is_unshown_once_the_model_has_answered_it(
    database: Database, key: KeyRecord
) -> None:
    conversation = await a_turn(database, key, "r1")
    posted, runs = ["r1/user", "new"], {"r1/user": RunId("r1")}

    async def known(first_unanswered: int = 0) -> KnownMessages:
        async with database.snapshot() as reader:
            return await known_messages(reader, conversation, posted, first_unanswered=first_unanswered)

    async def say(model: str) -> None:
        line = {"type": "assistant", "message": {"model": model, "content": [{"type": "text", "text": "hi"}]}}
        await TranscriptStore(database).add(conversation.transcript, [TranscriptEntry(line, "r1")])

    async def set_status(status: str) -> None:
        await execute(database, "UPDATE runs SET status = :status", status=status)

    await set_status("running")
    await say("claude-sonnet-5-5")
    active = await known()
    await set_status("failed")
    await execute(database, "DELETE FROM session_entries")
    await say("<synthetic>")
    failed = await known()
    await say("claude-sonnet-5-5")

    assert active == failed == KnownMessages(runs)
    assert await known() == KnownMessages(runs, frozenset({"r1/user"}))
    assert await known(first_unanswered=1) == KnownMessages(runs)


CHAT = Chat(GRAPH, "chat-1")
_INSERT = text(
    """
    INSERT INTO runs (account_id, run_id, api_key_id, graph_id, model, status, request_hash, created_at)
    VALUES (:account, :run, :key, 'claude_agents:assistant', 'm', 'succeeded', '', now())
    """
)


@pytest.mark.parametrize(("answered", "queries"), [(0, 1), (15, 1), (16, 2), (48, 3), (240, 5)])
async def test_the_next_answer_follows_the_last_one(database: Database, answered: int, queries: int) -> None:
    key = await an_account(database)
    *ids, following = islice(answer_ids(key.account_id, CHAT, "u1"), answered + 1)
    async with database.transaction() as tx:
        for run_id in ids:
            await tx.execute(_INSERT, {"account": key.account_id, "run": run_id, "key": key.id})

    with noted(database) as counted:
        found = await latest_answer(database, key.account_id, CHAT, message_id="u1")

    assert found == (ids[-1] if ids else None, following)
    assert len(counted) == queries


async def test_results_find_the_run_of_their_calls_and_no_other(
    open_core: OpenCore, database: Database
) -> None:
    controls, results = [], list[ToolResult]()

    async def do(context: RunContext) -> None:
        controls.append(context.control)
        results.append(await context.control.client_calls.call("confirm", {}, call_id="call-1"))

    async with SchemaChecker(workers=1, check_s=5.0) as schemas, open_core(executor=Executing(do)) as core:
        caller, chat = caller_of(await an_account(database)), Chat(RETRIED.id, KEY)
        runs = ClientToolRuns(
            *(database, core.service, core.process.commands, conversations_over(database)),
            graphs=GraphCatalog([RETRIED]),
            schemas=SchemaPreparation(schemas, Offload()),
        )
        run = await core.start(RETRIED, state_key=KEY)
        await until(lambda: bool(controls) and controls[0].client_calls.calls.is_waiting)

        assert await runs.find(caller, chat, ["call-2"]) is None
        assert await runs.find(caller, Chat(RETRIED.id, "chat-2"), ["call-1"]) is None
        assert (
            await runs.find_in(caller, Chat("claude_agents:once", KEY), run.key, call_ids=["call-1"]) is None
        )
        found = await runs.find(caller, chat, ["call-1", "call-2"])
        assert found is not None
        assert (found.record.key, list(found.calls)) == (run.key, ["call-1"])
        await runs.answer(found, {"call-1": ClientToolResult("yes")})

        assert (await core.service.wait(run.key)).ok
        # It has ended: a client that posts them again is answered with its events.
        await runs.answer(found, {"call-1": ClientToolResult("no")})
        assert await runs.find(caller, chat, ["call-1"]) is not None
    assert results == [ToolResult("yes", "yes")]
