"""The provider's own Python client for Managed Agents, unmodified: what it gets, and what is on the bill."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic

from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import MESSAGES, every_agent, without_cli
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import KEY, World, WorldOf
from tests.e2e.test_a_client_brings_tools import PICK
from tests.e2e.test_a_client_brings_tools import settings as helper_settings
from tests.patience import PATIENCE_S


@asynccontextmanager
async def a_client(world: World, key: str = KEY) -> AsyncIterator[AsyncAnthropic]:
    """The client as its guide makes it, with the two settings that every user changes."""
    transport = anthropic.DefaultAsyncHttpxClient(trust_env=False, timeout=PATIENCE_S)
    url = f"{world.url}/managed-agents"
    async with AsyncAnthropic(base_url=url, api_key=key, http_client=transport) as client:
        yield client


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(f"You said {len(request.messages)}: {request.last_text}")])


def says(text: str) -> Any:
    return {"type": "user.message", "content": [{"type": "text", "text": text}]}


async def a_session(client: AsyncAnthropic, agent: str, **more: Any) -> Any:
    return await client.beta.sessions.create(agent=agent, environment_id="env_default", **more)


async def until_idle(stream: Any, times: int = 1) -> list[Any]:
    """The events of a stream until the session has become idle so often."""
    found: list[Any] = []
    async with asyncio.timeout(PATIENCE_S):
        async for event in stream:
            found.append(event)
            times -= event.type == "session.status_idle"
            if not times:
                return found
    raise AssertionError(found)


def kinds(events: list[Any]) -> list[str]:
    return [each.type for each in events]


@every_agent
async def test_a_session_goes_on_over_two_turns_and_its_usage_is_that_of_the_receipts(
    world_of: WorldOf, agent: str
) -> None:
    world = await world_of(echo, agent=agent)
    async with a_client(world) as client:
        session = await a_session(client, f"{agent}:assistant", title="Bob", metadata={"chat": "1"})
        sessions = client.beta.sessions
        async with await sessions.events.stream(session.id) as stream:
            sent = await sessions.events.send(session.id, events=[says("I am Bob.")])
            first = await until_idle(stream)
            await sessions.events.send(session.id, events=[says("Who am I?")])
            second = await until_idle(stream)
        listed = [each async for each in sessions.events.list(session.id, limit=3)]
        newest = [
            each async for each in sessions.events.list(session.id, order="desc", types=["agent.message"])
        ]
        after = await sessions.retrieve(session.id)
        all_of_them = [each.id async for each in sessions.list()]

    assert (session.status, session.title, session.metadata) == ("idle", "Bob", {"chat": "1"})
    assert kinds(first) == [
        *("user.message", "session.status_running", "agent.message", "session.status_idle")
    ]
    assert first[0].id == sent.data[0].id
    assert [first[2].content[0].text, second[2].content[0].text] == [
        "You said 1: I am Bob.",
        "You said 3: Who am I?",
    ]
    assert second[-1].stop_reason.type == "end_turn"
    assert [each.id for each in listed] == [each.id for each in first + second]
    assert [each.id for each in newest] == [second[2].id, first[2].id]
    runs = (await world.http.get("/v1/runs")).json()["items"]
    receipts = [each for run in runs for each in await world.receipts(run["runId"])]
    assert {run["stateKey"] for run in runs} == {session.id}
    assert runs[0]["metadata"] == {"chat": "1"}
    assert (after.usage.input_tokens, after.usage.output_tokens) == (
        sum(each["inputTokens"] for each in receipts),
        sum(each["outputTokens"] for each in receipts),
    )
    assert after.usage.output_tokens > 0
    assert all_of_them == [session.id]
