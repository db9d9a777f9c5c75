"""Runs of chats are found by the calls that a client answers."""

from app.executors.client_calls import ClientToolResult
from app.executors.port import RunContext
from app.graphs.catalog import GraphCatalog
from app.platform.concurrency.offload import Offload
from app.platform.db import Database
from app.platform.json_schema.checker import SchemaChecker
from app.runs.chats import Chat
from app.runs.client_tools.service import ClientToolRuns
from app.runs.requests.schemas import SchemaPreparation
from runtally.tools.result import ToolResult
from tests.e2e.stories import until
from tests.factories import an_account
from tests.integration.conversations import KEY, conversations_over
from tests.integration.run_process import Executing
from tests.integration.run_service import RETRIED, OpenCore, caller_of


async def test_results_find_the_run_of_their_calls_and_no_other(
    open_core: OpenCore, database: Database
) -> None:
    controls, results = [], list[ToolResult]()

    async def do(context: RunContext) -> None:
        controls.append(context.control)
        results.append(await context.control.client_calls.call("confirm", {}, call_id="call-1"))

    async with (
        SchemaChecker(workers=1, check_s=5.0) as schemas,
        open_core(executor=Executing(do)) as core,
    ):
        caller, chat = caller_of(await an_account(database)), Chat(RETRIED.id, KEY)
        runs = ClientToolRuns(
            *(database, core.service, core.process.commands, conversations_over(database)),
            graphs=GraphCatalog([RETRIED]),
            schemas=SchemaPreparation(schemas, Offload()),
        )
        run = await core.start(RETRIED, state_key=KEY)
        await until(lambda: bool(controls) and controls[0].client_calls.is_waiting)

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
