"""The provider's own Python client for Managed Agents, unmodified: what it gets, and what is on the bill."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import AsyncAnthropic

from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import MESSAGES, every_agent, every_agent_at_length
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import CLOCK, KEY, World, WorldOf
from tests.e2e.test_a_client_brings_tools import PICK
from tests.e2e.test_a_client_brings_tools import settings as helper_settings
from tests.media import PIXEL, b64
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


async def send(client: AsyncAnthropic, session: Any, *posted: Any) -> list[Any]:
    """Send events; what the client gets for them."""
    return list((await client.beta.sessions.events.send(session.id, events=posted)).data or ())


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


REQUEST = ("span.model_request_start", "span.model_request_end")


def kinds(events: list[Any]) -> list[str]:
    return [each.type for each in events]


def requested(usage: Any) -> tuple[int, ...]:
    read, written = usage.cache_read_input_tokens, usage.cache_creation_input_tokens
    return usage.input_tokens, usage.output_tokens, read, written


def charged(receipt: dict[str, Any]) -> tuple[int, ...]:
    written = receipt["cacheWrite5mTokens"] + receipt["cacheWrite1hTokens"]
    return receipt["inputTokens"], receipt["outputTokens"], receipt["cacheReadTokens"], written


@every_agent
async def test_a_session_goes_on_over_two_turns_and_its_usage_is_that_of_the_receipts(
    world_of: WorldOf, agent: str
) -> None:
    world = await world_of(echo, agent=agent)
    async with a_client(world) as client:
        session = await a_session(client, f"{agent}:assistant", title="Bob", metadata={"chat": "1"})
        sessions = client.beta.sessions
        async with await sessions.events.stream(session.id) as stream:
            sent = await send(client, session, says("I am Bob."))
            first = await until_idle(stream)
            await send(client, session, says("Who am I?"))
            second = await until_idle(stream)
        listed = [each async for each in sessions.events.list(session.id, limit=3)]
        newest = [
            each async for each in sessions.events.list(session.id, order="desc", types=["agent.message"])
        ]
        after: Any = await sessions.retrieve(session.id)
        all_of_them = [each.id async for each in sessions.list()]

    assert (session.status, session.title, session.metadata) == ("idle", "Bob", {"chat": "1"})
    assert kinds(first) == [
        *("user.message", "session.status_running", "agent.message"),
        *(*REQUEST, "session.usage", "session.status_idle"),
    ]
    assert first[0].id == sent[0].id
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
    snapshots = [each.usage for each in listed if each.type == "session.usage"]
    assert snapshots == [first[-2].usage, second[-2].usage]
    starts = [each.id for each in listed if each.type == "span.model_request_start"]
    ends = [each for each in listed if each.type == "span.model_request_end"]
    assert [each.model_request_start_id for each in ends] == starts
    assert "is_error" in ends[0].model_fields_set, "strict clients of TypeScript need it"
    assert [requested(each.model_usage) for each in ends] == [charged(each) for each in reversed(receipts)]
    totals = [each["outputTokens"] for each in await world.receipts(runs[1]["runId"])]
    assert [each.output_tokens for each in snapshots] == [sum(totals), after.usage.output_tokens]
    assert snapshots[1].list_cost == after.usage.list_cost
    assert all_of_them == [session.id]


COLOR: Any = {
    "type": "custom",
    "name": "pick_color",
    "description": "Pick a color on the screen.",
    "input_schema": {"type": "object", "properties": {"about": {"type": "string"}}},
}


@every_agent_at_length
async def test_a_custom_tool_is_executed_by_the_client(world_of: WorldOf, tmp_path: Path, agent: str) -> None:
    script = in_turn(Reply([Text("Wait."), ToolUse(PICK, {"about": "sky"})]), Reply([Text("Blue.")]))
    world = await world_of(script, agent=agent, **helper_settings(tmp_path))
    async with a_client(world) as client:
        helper: Any = {"type": "agent_with_overrides", "id": f"{agent}:helper", "tools": [COLOR]}
        session = await a_session(client, helper)
        events = client.beta.sessions.events
        async with await events.stream(session.id) as stream:
            await send(client, session, says("Which color?"))
            asked = await until_idle(stream)
            waiting = await client.beta.sessions.retrieve(session.id)
            (called,) = [each for each in asked if each.type == "agent.custom_tool_use"]
            result: Any = {
                "type": "user.custom_tool_result",
                "custom_tool_use_id": called.id,
                "content": [{"type": "text", "text": "it is blue"}],
            }
            other = await a_session(client, helper)
            with pytest.raises(anthropic.BadRequestError, match="custom_tool_use_id"):
                await send(client, other, result)
            sent = await send(client, session, result)
            rest = await until_idle(stream)
        with pytest.raises(anthropic.ConflictError):
            await send(client, session, result)

    assert session.agent.tools[0].name == "pick_color"
    assert (called.name, called.input) == ("pick_color", {"about": "sky"})
    assert asked[-1].stop_reason.event_ids == [called.id]
    assert waiting.status == "idle"
    assert rest[0].id == sent[0].id
    assert kinds(rest) == [
        *("user.custom_tool_result", "session.status_running", "agent.message"),
        *(*REQUEST * 2, "session.usage", "session.status_idle"),
    ]
    assert "it is blue" in str(world.simulator.requests[1].tool_results)


@every_agent_at_length
async def test_a_person_confirms_or_denies_a_call(world_of: WorldOf, tmp_path: Path, agent: str) -> None:
    mails = [ToolUse(MAIL, {"to": "bob@example.org", "text": text}) for text in ("Hello", "Bye")]
    script = in_turn(*(Reply([each]) for each in mails), Reply([Text("As you like.")]))
    world = await world_of(script, agent=agent, **office_settings(tmp_path))
    async with a_client(world) as client:
        session = await a_session(client, f"{agent}:mailer")
        events = client.beta.sessions.events
        stories = []
        async with await events.stream(session.id) as stream:
            await send(client, session, says("Write to Bob."))
            for answer in ({"result": "allow"}, {"result": "deny", "deny_message": "Not this one."}):
                asked = await until_idle(stream)
                (use,) = asked[-1].stop_reason.event_ids
                decision: Any = {"type": "user.tool_confirmation", "tool_use_id": use, **answer}
                sent = await send(client, session, decision)
                stories.append((asked, sent[0].id))
            end = await until_idle(stream)
        listed = [each async for each in events.list(session.id)]

    assert kinds(stories[0][0])[2:] == ["agent.mcp_tool_use", "session.status_idle"]
    second = stories[1][0]
    assert kinds(second) == [
        *("user.tool_confirmation", "session.status_running", "agent.mcp_tool_result"),
        *("agent.mcp_tool_use", "session.status_idle"),
    ]
    assert [second[0].id, end[0].id] == [each for _, each in stories]
    assert (second[0].result, end[0].result, end[2].is_error) == ("allow", "deny", True)
    assert office().sent == [("bob@example.org", "Hello")]
    assert "Not this one." in str(world.simulator.requests[2].tool_results)
    streamed = [each for asked, _ in stories for each in asked] + end
    assert [each.id for each in listed] == [each.id for each in streamed]


@every_agent_at_length
async def test_a_message_reaches_the_run_that_is_active_and_an_interrupt_ends_its_turn(
    world_of: WorldOf, agent: str
) -> None:
    holds = [Hold(index=4), Hold(index=4)]
    script = in_turn(*(Reply([Text("one two three")], hold=hold) for hold in holds), Reply([Text("Yes.")]))
    world = await world_of(script, agent=agent)
    async with a_client(world) as client:
        session = await a_session(client, f"{agent}:assistant")
        events = client.beta.sessions.events
        await send(client, session, says("Count."))
        await holds[0].reached.wait()
        # Opened in the middle: with the list it has everything, and nothing else.
        async with await events.stream(session.id, event_deltas=["agent.message"]) as stream:
            before = [each async for each in events.list(session.id)]
            running = await client.beta.sessions.retrieve(session.id)
            sent = await send(client, session, says("And on."))
            holds[0].until.set()
            await holds[1].reached.wait()
            interrupt = await send(client, session, {"type": "user.interrupt"})
            rest = await until_idle(stream)
            await send(client, session, says("Are you there?"))
            last = await until_idle(stream)
        listed = [each async for each in events.list(session.id)]

    assert running.status == "running"
    assert rest[-1].stop_reason.type == "end_turn"
    assert {sent[0].id, interrupt[0].id} <= {each.id for each in listed}
    previews = {"event_start", "event_delta"}
    whole = [each for each in [*before, *rest, *last] if each.type not in previews]
    assert [each.id for each in listed] == [each.id for each in whole]
    deltas = [each.delta.content.text for each in last if each.type == "event_delta"]
    assert "".join(deltas) == "Yes."
    assert {each.event.id for each in last if each.type == "event_start"} == {
        each.id for each in last if each.type == "agent.message"
    }
    assert len((await world.http.get("/v1/runs")).json()["items"]) == 2


def spent_up(session: Any) -> Any:
    """A limit that a session has reached."""
    return {"amount": str(int(session.usage.list_cost.amount) - 1), "currency": "USD"}


@every_agent_at_length
async def test_a_budget_is_never_passed_and_a_higher_one_goes_on(world_of: WorldOf, agent: str) -> None:
    def looks_again(request: ApiRequest) -> Reply:
        block = Text("Noon.") if "Go on." in str(request.messages[-1]) else ToolUse(CLOCK)
        # 7.5 cents and more; it might have cost four times as much.
        return Reply([block], final_usage={"output_tokens": 15_000})

    world = await world_of(looks_again, agent=agent)
    cap: Any = {"type": "limit", "max_list_cost": {"amount": "60", "currency": "USD"}}
    agent_: Any = {"type": "agent_with_overrides", "id": f"{agent}:assistant", "model": "claude-haiku-4-5"}
    async with a_client(world) as client:
        session = await a_session(client, agent_, budget=cap, initial_events=[says("What time is it?")])
        events = client.beta.sessions.events
        run = (await world.http.get("/v1/runs")).json()["items"][0]["runId"]
        await world.ended(run)
        newest: Any = await events.list(session.id, order="desc", limit=1)
        capped: Any = await client.beta.sessions.retrieve(session.id)
        cap["max_list_cost"] = spent_up(capped)
        await client.beta.sessions.update(session.id, budget=cap)
        with pytest.raises(anthropic.APIStatusError) as refused:
            await send(client, session, says("Go on."))
        raised: Any = {"type": "limit", "max_list_cost": {"amount": "5000", "currency": "USD"}}
        changed = await client.beta.sessions.update(
            session.id, budget=raised, title="Raised", metadata={"a": "b"}
        )
        async with await events.stream(session.id) as stream:
            await send(client, session, says("Go on."))
            rest = await until_idle(stream)

    assert newest.data[0].stop_reason.type == "budget_reached"
    assert capped.budget.max_list_cost.amount == "60"
    receipts = await world.receipts(run)
    cost = sum(Decimal(each["costUsd"]) for each in receipts)
    assert Decimal(0) < cost <= Decimal("0.60")
    assert capped.usage.list_cost.amount == str(math.ceil(cost * 100))
    assert (refused.value.status_code, refused.value.type) == (402, "billing_error")
    assert (changed.title, changed.metadata) == ("Raised", {"a": "b"})
    assert rest[-1].stop_reason.type == "end_turn"


async def test_attachments_and_questions_of_the_agent(world_of: WorldOf, tmp_path: Path) -> None:
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    (graphs / "curious.md").write_text("---\ndescription: Asks.\nquestions: true\n---\nAsk.\n")
    color = {"question": "Which color?", "header": "Color", "multiSelect": False}
    options = [{"label": each, "description": each} for each in ("Red", "Blue")]
    ask = Reply([ToolUse("AskUserQuestion", {"questions": [{**color, "options": options}]})])
    world = await world_of(
        in_turn(ask, Reply([Text("Blue it is.")])), agent=MESSAGES, RUNTALLY_GRAPHS_DIR=graphs
    )
    content: Any = [
        {"type": "text", "text": "Paint it."},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": b64(PIXEL)}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A note."}},
    ]
    async with a_client(world) as client:
        session = await a_session(client, "messages:curious")
        events = client.beta.sessions.events
        async with await events.stream(session.id) as stream:
            await send(client, session, {"type": "user.message", "content": content})
            asked = await until_idle(stream)
            (use,) = asked[-1].stop_reason.event_ids
            answer: Any = {"type": "user.custom_tool_result", "custom_tool_use_id": use}
            blue = {**answer, "content": [{"type": "text", "text": "Blue"}]}
            await send(client, session, blue)
            rest = await until_idle(stream)

    (question,) = [each for each in asked if each.type == "agent.custom_tool_use"]
    assert (question.name, question.input["questions"][0]["question"]) == ("ask_user", "Which color?")
    assert [each.content[0].text for each in rest if each.type == "agent.message"] == ["Blue it is."]
    first = str(world.simulator.requests[0].messages)
    assert b64(PIXEL) in first
    assert "A note." in first
    assert "Blue" in str(world.simulator.requests[1].tool_results)
