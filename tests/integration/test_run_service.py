"""What starting a run stores, and what repeating it does."""

import asyncio

import pytest

from app.billing.credit.ledger import InsufficientCredits
from app.events import AssistantFinal, Done
from app.platform.db import Database
from app.platform.pagination import PageRequest
from app.requests.run_request import GraphRunRequest
from app.runs.requests.posted import RunIdTaken
from tests.factories import an_account
from tests.integration.run_service import OpenCore, a_request, caller_of
from tests.scripted import WriteMessage


async def test_a_run_is_executed_to_its_end_without_a_reader(open_core: OpenCore, database: Database) -> None:
    async with open_core() as core:
        caller = caller_of(await an_account(database))
        record = await core.service.start(caller, a_request(), request_id="req-1")

        final = await core.service.wait(record.key)

        events = [entry.event for entry in await core.service.events(record.key)]
        assert (record.status, record.request_id) == ("running", "req-1")
        assert record.started_at is not None
        assert (final.ok, final.content, final.finish_reason) == (True, "Good morning.", "stop")
        assert events[-2:] == [
            AssistantFinal(content="Good morning."),
            Done(
                usage=final.usage,
                finish_reason="stop",
                context_used=final.context_used,
                context_window=final.context_window,
            ),
        ]
        assert (await core.service.get(record.key)).final == final


async def test_the_same_request_joins_its_run_and_another_one_is_refused(open_core: OpenCore) -> None:
    executed: list[GraphRunRequest] = []

    def script(request: GraphRunRequest) -> list[WriteMessage]:
        executed.append(request)
        return [WriteMessage("Once.")]

    async with open_core(script) as core:
        records = await asyncio.gather(*(core.start(run_id="run-1") for _ in range(2)))
        await core.service.wait(records[0].key)
        joined = await core.start(run_id="run-1")
        with pytest.raises(RunIdTaken):
            await core.start(prompt="else", run_id="run-1")

    assert {record.key for record in [*records, joined]} == {records[0].key}
    assert joined.status == "succeeded"
    assert len(executed) == 1


async def test_without_credit_nothing_is_stored(open_core: OpenCore, database: Database) -> None:
    async with open_core() as core:
        key = await an_account(database)
        await core.process.ledger.change_mode(key.account_id, "prepaid")

        with pytest.raises(InsufficientCredits):
            await core.service.start(caller_of(key), a_request(state_key="chat-1"), request_id=None)

        assert await core.service.list_runs(key.account_id, PageRequest(10)) == ([], None)
        assert not core.process.supervisor.active_attempts()
