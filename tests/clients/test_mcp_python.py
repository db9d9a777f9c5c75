"""The client of the `mcp` library, in revisions with and without sessions, at our own server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolResult, ElicitRequestFormParams, ElicitResult

from app.simulator.script import ApiRequest, Hold, HttpError, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import MESSAGES, every_agent, without_cli
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import KEY, World, WorldOf
from tests.e2e.test_a_graph_has_an_input import HOSTILE, reading
from tests.e2e.test_a_graph_has_an_input import settings as reader_settings
from tests.e2e.test_the_agent_asks import COLOR, SIZES, asking
from tests.e2e.test_the_agent_asks import settings as asker_settings
from tests.patience import PATIENCE_S

MODERN, SESSIONS = "auto", "legacy"
both = pytest.mark.parametrize("mode", [MODERN, SESSIONS])
TOOL = f"{MESSAGES}__assistant"


@asynccontextmanager
async def a_client(world: World, mode: str, *, key: str = KEY, fills_in: Any = None) -> AsyncIterator[Client]:
    """The client as its guide makes it, with the two settings that every user changes."""
    headers = {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE_S, trust_env=False) as http:
        transport = streamable_http_client(f"{world.url}/mcp", http_client=http)
        async with Client(transport, mode=mode, elicitation_callback=fills_in) as client:
            yield client


class Person:
    """Fills in forms, with these contents in turn; None declines."""

    def __init__(self, *contents: dict[str, Any] | None) -> None:
        self.contents = list(contents)
        self.forms: list[ElicitRequestFormParams] = []

    async def __call__(self, _context: Any, form: Any) -> ElicitResult:
        self.forms.append(form)
        content = self.contents.pop(0)
        return ElicitResult(action="decline" if content is None else "accept", content=content)


def text_of(result: CallToolResult) -> str:
    """What the model that has called gets."""
    return "".join(block.text for block in result.content if block.type == "text")


def ours(result: CallToolResult) -> tuple[str, str]:
    """The run and the conversation."""
    meta = dict(result.meta or {})
    return str(meta["runtally/runId"]), str(meta["runtally/conversation"])


async def runs_of(world: World) -> list[Any]:
    found: list[Any] = (await world.http.get("/v1/runs")).raise_for_status().json()["items"]
    return found


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(f"You said {len(request.messages)}: {request.last_text}")])


@both
async def test_each_graph_is_a_tool_whose_conversations_have_names(world_of: WorldOf, mode: str) -> None:
    world = await world_of(echo, agent=MESSAGES)
    labels: Any = {"runtally/endUser": "bob", "runtally/tags": {"team": "a"}, "runtally/metadata": {"n": "1"}}

    async with a_client(world, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        named = {"message": "I am Bob.", "conversation": "us"}
        first = await client.call_tool(TOOL, named, meta=labels)
        second = await client.call_tool(TOOL, {**named, "message": "Who am I?"}, meta=labels)
        alone = await client.call_tool(TOOL, {"message": "hello"})
        again = await client.call_tool(TOOL, {"message": "And?", "conversation": ours(alone)[1]})
        known = await client.call_tool(TOOL, {"message": "Well?", "conversation": f"run:{ours(first)[0]}"})

    assert [text_of(each) for each in (first, second, alone, again)] == [
        *("You said 1: I am Bob.", "You said 3: Who am I?"),
        *("You said 1: hello", "You said 3: And?"),
    ]
    assert text_of(known) == text_of(first)
    tool = tools[TOOL]
    assert tool.description
    assert tool.input_schema["required"] == ["message"]
    runs = await runs_of(world)
    assert len(runs) == 4
    assert [run["runId"] for run in reversed(runs)] == [
        ours(each)[0] for each in (first, second, alone, again)
    ]
    assert (runs[-1]["endUser"], runs[-1]["tags"], runs[-1]["metadata"]) == ("bob", {"team": "a"}, {"n": "1"})
    assert [each["endUser"] for each in await world.receipts(runs[-1]["runId"])] == ["bob"]


@both
async def test_the_text_so_far_is_progress_and_an_object_is_structured(world_of: WorldOf, mode: str) -> None:
    def respond(request: ApiRequest) -> Reply:
        return Reply([Text("word " * 200 if request.last_text == "talk" else '{"city": "Oslo"}')])

    world = await world_of(respond, agent=MESSAGES)
    schema: Any = {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    }
    shown: list[str | None] = []

    async def show(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        shown.append(message)

    async with a_client(world, mode) as client:
        said = await client.call_tool(TOOL, {"message": "talk"}, progress_callback=show)
        wanted: Any = {"runtally/schema": schema}
        found = await client.call_tool(TOOL, {"message": "where?"}, meta=wanted)

    assert text_of(said) == "word " * 200
    assert 2 <= len(shown) < 10
    assert all(text is not None and text_of(said).startswith(text) for text in shown)
    assert found.structured_content == {"city": "Oslo"}
    assert json.loads(text_of(found)) == {"city": "Oslo"}


@both
async def test_a_graph_with_schemas_is_a_tool_with_these_arguments_and_results(
    world_of: WorldOf, tmp_path: Path, mode: str
) -> None:
    world = await world_of(reading, agent=MESSAGES, **reader_settings(tmp_path))
    name = f"{MESSAGES}__reader"

    async with a_client(world, mode) as client:
        tool = next(each for each in (await client.list_tools()).tools if each.name == name)
        first = await client.call_tool(name, {**HOSTILE, "conversation": "bills"})
        second = await client.call_tool(name, {"text": "Total: 4", "conversation": "bills"})
        again = await client.call_tool(name, {"text": "", "conversation": f"run:{ours(first)[0]}"})
        with pytest.raises(MCPError) as wrong:
            await client.call_tool(name, {"text": "t", "year": "soon"})
        with pytest.raises(MCPError) as missing:
            await client.call_tool(name, {"message": "Total: 4"})

    assert (tool.title, tool.input_schema["required"]) == ("Invoice reader", ["text"])
    assert list(tool.input_schema["properties"]) == ["text", "year", "conversation"]
    assert tool.output_schema is not None
    assert tool.output_schema["required"] == ["total"]
    assert first.structured_content == again.structured_content == {"total": len(json.dumps(HOSTILE))}
    assert ours(first)[1] == ours(second)[1]
    assert [json.loads(each.last_text) for each in world.simulator.requests] == [
        HOSTILE,
        {"text": "Total: 4"},
    ]
    assert wrong.value.error.data["errors"][0]["field"] == "params.arguments.year"
    assert missing.value.error.data["errors"][0]["field"] == "params.arguments"


@both
async def test_suggestions_are_prompts_that_name_the_tool(world_of: WorldOf, mode: str) -> None:
    world = await world_of(echo, agent=MESSAGES)

    async with a_client(world, mode) as client:
        prompts = {each.name: each for each in (await client.list_prompts()).prompts}
        got = await client.get_prompt(f"{TOOL}__3")
        with pytest.raises(MCPError) as unknown:
            await client.get_prompt(f"{TOOL}__9")

    prompt = prompts[f"{TOOL}__3"]
    assert prompt.title == "Write a polite refusal"
    assert prompt.description is not None
    assert prompt.description.startswith("Assistant: ")
    (message,) = got.messages
    assert message.role == "user"
    assert message.content.type == "text"
    assert message.content.text.startswith(f"With the tool {TOOL}: Write a short, friendly mail")
    assert unknown.value.error.code == INVALID_PARAMS


@both
@every_agent
async def test_its_user_decides_about_calls_in_the_client(
    world_of: WorldOf, tmp_path: Path, mode: str, agent: str
) -> None:
    send = Reply([ToolUse(MAIL, {"to": "a@example.org", "text": "hi"})])
    script = in_turn(send, send, Reply([Text("One was sent.")]))
    world = await world_of(script, agent=agent, **office_settings(tmp_path))
    person = Person({"approved": True}, None)

    async with a_client(world, mode, fills_in=person) as client:
        result = await client.call_tool(f"{agent}__mailer", {"message": "write"})

    assert text_of(result) == "One was sent."
    assert office().sent == [("a@example.org", "hi")]
    assert ["office__send_mail" in form.message and "hi" in form.message for form in person.forms] == [
        True
    ] * 2
    assert len(await runs_of(world)) == 1


@both
@without_cli
async def test_its_user_answers_questions_in_the_client(
    world_of: WorldOf, tmp_path: Path, mode: str, agent: str
) -> None:
    script = in_turn(asking(COLOR, SIZES), asking(COLOR), Reply([Text("So be it.")]))
    world = await world_of(script, agent=agent, **asker_settings(tmp_path))
    person = Person({"0": "Red", "1": ["S", "L"]}, None)

    async with a_client(world, mode, fills_in=person) as client:
        result = await client.call_tool(f"{agent}__asker", {"message": "hi"})

    assert text_of(result) == "So be it."
    first, last = [str(request.tool_results[0]["content"]) for request in world.simulator.requests[1:3]]
    assert '"Which color?"="Red", "Which sizes?"="S, L"' in first
    assert "declined" in last


@both
@without_cli
async def test_a_client_without_forms_gets_a_link_and_calls_again(
    world_of: WorldOf, tmp_path: Path, mode: str, agent: str
) -> None:
    send = ToolUse(MAIL, {"to": "a@example.org", "text": "hi"})
    world = await world_of(
        in_turn(Reply([Text("Wait."), send]), Reply([Text("Sent.")])),
        agent=agent,
        **office_settings(tmp_path),
    )
    tool = f"{agent}__mailer"

    async with a_client(world, mode) as client:
        linked = await client.call_tool(tool, {"message": "write"})
        (waiting,) = (await world.http.get("/v1/approvals")).json()["items"]
        run_id, _ = ours(linked)
        onward = {"message": "go on", "conversation": f"run:{run_id}"}
        still = await client.call_tool(tool, onward)
        decided = await world.http.post(
            f"/v1/runs/{run_id}/permissions/{waiting['requestId']}", json={"decision": "allow"}
        )
        result = await client.call_tool(tool, onward)

    assert f"{world.url}/approvals?runId={run_id} " in text_of(linked)
    assert f'"run:{run_id}"' in text_of(linked)
    assert text_of(still) == text_of(linked)
    assert decided.status_code == 200
    assert text_of(result) == "Sent."
    assert len(await runs_of(world)) == 1


@both
async def test_errors_of_runs_are_results_and_those_of_requests_name_the_field(
    world_of: WorldOf, mode: str
) -> None:
    world = await world_of(lambda _: HttpError(400, "invalid_request_error", "secret words"), agent=MESSAGES)
    wrong: list[tuple[str, dict[str, Any], Any, str]] = [
        ("messages__none", {"message": "hi"}, {}, "params.name"),
        (TOOL, {}, {}, "params.arguments.message"),
        (TOOL, {"message": " "}, {}, "params.arguments.message"),
        (TOOL, {"message": "hi", "more": 1}, {}, "params.arguments.more"),
        (TOOL, {"message": "hi"}, {"runtally/endUser": ""}, "params._meta.runtally/endUser"),
        (TOOL, {"message": "hi"}, {"runtally/schema": {"type": 1}}, "params._meta.runtally/schema"),
        (TOOL, {"message": "hi", "conversation": "run:none"}, {}, "no run"),
    ]

    async with a_client(world, mode) as client:
        failed = await client.call_tool(TOOL, {"message": "hi"})
        for name, arguments, meta, named in wrong:
            with pytest.raises(MCPError) as raised:
                await client.call_tool(name, arguments, meta=meta)
            assert (raised.value.code, named in raised.value.message) == (INVALID_PARAMS, True), raised.value

    assert (failed.is_error, text_of(failed)) == (
        True,
        "The model's provider rejected the request as invalid.",
    )
    assert len(await runs_of(world)) == 1


async def test_a_call_that_is_cancelled_ends_its_run_and_one_that_broke_off_does_not(
    world_of: WorldOf,
) -> None:
    """Only revisions with sessions have a message for it; others disconnect, as if the network were lost."""
    hold = Hold(0)
    world = await world_of(lambda _: Reply([Text("done")], hold=hold), agent=MESSAGES)

    for mode in (SESSIONS, MODERN):
        hold.reached.clear()
        async with a_client(world, mode) as client:
            calling = asyncio.create_task(client.call_tool(TOOL, {"message": mode}))
            await hold.reached.wait()
            calling.cancel()
            await asyncio.wait({calling})
            if mode == SESSIONS:
                (run,) = await runs_of(world)
                cancelled = await world.ended(run["runId"])
    hold.until.set()
    kept = await world.ended((await runs_of(world))[0]["runId"])

    assert (cancelled["status"], cancelled["final"]["error"]) == ("cancelled", "aborted")
    assert (kept["status"], kept["final"]["content"]) == ("succeeded", "done")
