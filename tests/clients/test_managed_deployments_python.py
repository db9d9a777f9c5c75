"""The provider's own Python client for deployments, unmodified: what begins when, and what is on the bill."""

import asyncio
from typing import Any

import anthropic
import pytest

from app.simulator.script import ApiRequest, Reply, Text
from tests.clients.test_managed_agents_python import a_client, says, send, until_idle
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import WorldOf
from tests.integration.schedule_server import this_minute, yearly
from tests.integration.test_http_schedule_runs import make_due
from tests.patience import PATIENCE_S


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(f"You said {len(request.messages)}: {request.last_text}")])


async def runs_of(client: Any, deployment: Any, count: int) -> list[Any]:
    """The runs of a deployment once there are so many, newest first."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = [each async for each in client.beta.deployment_runs.list(deployment_id=deployment.id)]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.05)


async def test_each_due_time_is_a_session_that_can_go_on(world_of: WorldOf, database_url: str) -> None:
    world = await world_of(echo, agent=MESSAGES)
    moment, agent = this_minute(), f"{MESSAGES}:assistant"
    budget: Any = {"type": "limit", "max_list_cost": {"amount": "2500", "currency": "USD"}}
    async with a_client(world) as client:
        deployments, sessions = client.beta.deployments, client.beta.sessions
        deployment: Any = await deployments.create(
            name="Report",
            agent=agent,
            environment_id="env_default",
            initial_events=[says("What changed?"), says("Be brief.")],
            schedule={"type": "cron", "expression": yearly(moment), "timezone": "UTC"},
            budget=budget,
            metadata={"team": "a"},
        )
        await make_due(database_url, moment)
        (due,) = await runs_of(client, deployment, 1)
        by_hand: Any = await deployments.run(deployment.id)
        session: Any = await sessions.retrieve(due.session_id)
        first = (await world.http.get("/v1/runs", params={"stateKey": session.id})).json()["items"][0]
        await world.ended(first["runId"])
        async with await sessions.events.stream(session.id) as stream:
            await send(client, session, says("Go on."))
            rest = await until_idle(stream)
        listed: list[Any] = [each async for each in sessions.events.list(session.id)]
        after: Any = await sessions.retrieve(session.id)
        its = {each.id async for each in sessions.list(deployment_id=deployment.id)}
        paused: Any = await deployments.pause(deployment.id)
        renamed: Any = await deployments.update(deployment.id, name="Other", metadata={"team": None})
        unpaused: Any = await deployments.unpause(deployment.id)
        again = await client.beta.deployment_runs.retrieve(due.id)
        archived: Any = await deployments.archive(deployment.id)
        left = [each.id async for each in deployments.list()]
        with pytest.raises(anthropic.ConflictError):
            await deployments.run(deployment.id)

    assert (due.error, due.trigger_context.type, due.agent.id) == (None, "schedule", agent)
    assert due.trigger_context.scheduled_at == moment
    assert (by_hand.trigger_context.type, by_hand.error) == ("manual", None)
    assert again == due
    assert its == {due.session_id, by_hand.session_id}
    assert (session.deployment_id, session.metadata, session.budget.max_list_cost.amount) == (
        *(deployment.id, {"team": "a"}),
        "2500",
    )
    texts = [block.text for each in listed if each.type == "user.message" for block in each.content]
    assert texts == ["What changed?\n\nBe brief.", "Go on."]
    assert [each.content[0].text for each in rest if each.type == "agent.message"] == ["You said 3: Go on."]
    runs = (await world.http.get("/v1/runs", params={"stateKey": session.id})).json()["items"]
    receipts = [each for run in runs for each in await world.receipts(run["runId"])]
    assert after.usage.output_tokens == sum(each["outputTokens"] for each in receipts) > 0
    assert {run["metadata"]["team"] for run in runs} == {"a"}
    assert (paused.status, paused.paused_reason.type) == ("paused", "manual")
    assert (renamed.name, renamed.metadata, renamed.schedule) == ("Other", {}, paused.schedule)
    assert (unpaused.status, unpaused.schedule.last_run_at) == ("active", moment)
    assert (archived.status, archived.schedule.upcoming_runs_at) == ("active", [])
    assert left == []
