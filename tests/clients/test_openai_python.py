"""OpenAI's own Python client, unmodified: what its user sees, what the model got, what is on the bill."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from app.simulator.script import (
    ApiRequest,
    Hold,
    HttpError,
    Reply,
    Text,
    Thinking,
    ToolUse,
    in_turn,
    text_of,
)
from tests.e2e.agents import CLAUDE, MESSAGES, every_agent, every_agent_at_length
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import KEY, World, WorldOf
from tests.e2e.test_a_client_brings_tools import PICK
from tests.e2e.test_a_client_brings_tools import settings as helper_settings
from tests.graph_files import graph_files
from tests.media import PDF, PIXEL, b64
from tests.patience import PATIENCE_S

Messages = list[Any]


@asynccontextmanager
async def a_client(world: World, key: str = KEY) -> AsyncIterator[AsyncOpenAI]:
    """The client as its guide makes it, with the two settings that every user changes."""
    url = f"{world.url}/openai/v1"
    transport = openai.DefaultAsyncHttpxClient(trust_env=False, timeout=PATIENCE_S)
    async with AsyncOpenAI(base_url=url, api_key=key, http_client=transport) as client:
        yield client


def says(text: Any, role: str = "user") -> Any:
    """A message, which the client types more narrowly than it reads it."""
    return {"role": role, "content": text}


def heard(request: ApiRequest) -> list[tuple[str, str]]:
    """What the model got."""
    return [(each["role"], text_of(each["content"])) for each in request.messages]


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(f"You said {len(request.messages)}: {request.last_text}")])


async def streamed(client: AsyncOpenAI, **request: Any) -> tuple[str, list[Any]]:
    """The text and all chunks of a stream."""
    chunks = [chunk async for chunk in await client.chat.completions.create(stream=True, **request)]
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    return "".join(delta.content or "" for delta in deltas), chunks


async def all_runs(world: World) -> list[Any]:
    found: list[Any] = (await world.http.get("/v1/runs")).raise_for_status().json()["items"]
    return found


@every_agent
async def test_a_chat_goes_on_in_its_conversation_and_each_run_is_on_the_bill(
    world_of: WorldOf, agent: str
) -> None:
    world = await world_of(echo, agent=agent)
    messages: Messages = [says("I am Bob.")]
    options: dict[str, Any] = {"model": f"{agent}:assistant", "safety_identifier": "bob"}

    async with a_client(world) as client:
        first = await client.chat.completions.create(
            messages=messages, **options, metadata={"chat": "1"}, extra_body={"tags": {"team": "a"}}
        )
        messages += [first.choices[0].message, says("Who am I?")]
        second, chunks = await streamed(
            client, messages=messages, **options, stream_options={"include_usage": True}
        )
        messages += [says(second, "assistant"), says("Sure?")]
        third = await client.chat.completions.create(messages=messages, **options)

    answers = [first.choices[0].message.content, second, third.choices[0].message.content]
    assert answers == ["You said 1: I am Bob.", "You said 3: Who am I?", "You said 5: Sure?"]
    assert heard(world.simulator.requests[-1]) == [
        *(("user", "I am Bob."), ("assistant", answers[0]), ("user", "Who am I?")),
        *(("assistant", second), ("user", "Sure?")),
    ]
    assert (first.object, first.choices[0].finish_reason, first.model) == (
        *("chat.completion", "stop"),
        options["model"],
    )
    assert [each.choices[0].finish_reason for each in chunks if each.choices][-1] == "stop"
    runs = await all_runs(world)
    assert first.id == f"chatcmpl-{runs[-1]['runId']}"
    assert len({run["stateKey"] for run in runs}) == 1
    assert (runs[-1]["endUser"], runs[-1]["metadata"], runs[-1]["tags"]) == (
        *("bob", {"chat": "1"}),
        {"team": "a"},
    )
    receipts = await world.receipts(runs[1]["runId"])
    assert [each["endUser"] for each in receipts] == ["bob"]
    usage = chunks[-1].usage
    assert usage is not None
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens > 0


PICK_COLOR: Any = {
    "type": "function",
    "function": {
        "name": "pick_color",
        "description": "Pick a color on the screen.",
        "parameters": {"type": "object", "properties": {"about": {"type": "string"}}},
        "strict": True,
    },
}


@every_agent_at_length
@pytest.mark.parametrize("streams", [False, True])
async def test_the_client_executes_functions_and_posts_their_results(
    world_of: WorldOf, tmp_path: Path, agent: str, *, streams: bool
) -> None:
    world = await world_of(
        in_turn(
            Reply([Text("Wait."), ToolUse(PICK, {"about": "sky"}), ToolUse(PICK, {"about": "sea"})]),
            Reply([Text("Blue and green.")]),
            Reply([Text("Yes.")]),
        ),
        agent=agent,
        **helper_settings(tmp_path),
    )
    messages: Messages = [says("Which colors?")]
    options: dict[str, Any] = {"model": f"{agent}:helper", "tools": [PICK_COLOR]}

    async with a_client(world) as client:
        message = await answered(client, streams=streams, messages=messages, **options)
        calls = message["tool_calls"]
        results = {"sky": "blue", "sea": "green"}
        messages += [message]
        for call in calls:
            about = json.loads(call["function"]["arguments"])["about"]
            messages += [{"role": "tool", "tool_call_id": call["id"], "content": results[about]}]
        done = await answered(client, streams=streams, messages=messages, **options)
        again = await answered(client, streams=streams, messages=messages, **options)
        other = [*messages[:-1], {**messages[-1], "content": "gray"}]
        with pytest.raises(openai.ConflictError) as refused:
            await answered(client, streams=streams, messages=other, **options)
        messages += [done, says("Sure?")]
        last = await answered(client, streams=streams, messages=messages, **options)

    assert message["content"] == "Wait."
    assert [call["function"]["name"] for call in calls] == ["pick_color", "pick_color"]
    assert done["content"] == again["content"] == "Blue and green."
    assert refused.value.code == "tool_call_answered"
    assert last["content"] == "Yes."
    told = str(world.simulator.requests[1].tool_results)
    assert "blue" in told
    assert "green" in told
    assert len(world.simulator.requests) == 3
    # The conversation knows the calls, of which the posted history was not asked.
    assert "tool_result" in str(world.simulator.requests[2].messages)
    assert [run["status"] for run in await all_runs(world)] == ["succeeded"] * 2


async def answered(client: AsyncOpenAI, *, streams: bool, **request: Any) -> dict[str, Any]:
    """The message that a client has in the end, as it posts it again."""
    if not streams:
        message = (await client.chat.completions.create(**request)).choices[0].message
        shown: dict[str, Any] = message.model_dump(exclude_none=True)
        return shown
    text, chunks = await streamed(client, **request)
    found = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or []]
    assert [call.index for call in found] == list(range(len(found)))
    assert chunks[-1].choices[0].finish_reason == ("tool_calls" if found else "stop")
    calls = [call.model_dump(exclude={"index"}) for call in found]
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


@every_agent_at_length
async def test_a_call_that_needs_a_person_ends_the_answer_with_a_link_and_the_next_message_goes_on(
    world_of: WorldOf, tmp_path: Path, agent: str
) -> None:
    mail = {"to": "bob@example.org", "text": "Hello Bob"}
    script = in_turn(
        Reply([Text("I write."), ToolUse(MAIL, mail)]), Reply([Text("It is sent.")]), Reply([Text("Bye.")])
    )
    world = await world_of(script, agent=agent, **office_settings(tmp_path))
    messages: Messages = [says("Write to Bob.")]
    options: dict[str, Any] = {"model": f"{agent}:mailer"}

    async with a_client(world) as client:
        asked, _ = await streamed(client, messages=messages, **options)
        messages += [says(asked, "assistant"), says("Now?")]
        still = await client.chat.completions.create(messages=messages, **options)
        (waiting,) = (await world.http.get("/v1/approvals")).raise_for_status().json()["items"]
        run = f"/v1/runs/{waiting['runId']}"
        decided = await world.http.post(
            f"{run}/permissions/{waiting['requestId']}", json={"decision": "allow"}
        )
        messages += [still.choices[0].message, says("Go on.")]
        rest, _ = await streamed(client, messages=messages, **options)
        messages += [says(rest, "assistant"), says("Thanks.")]
        last = await client.chat.completions.create(messages=messages, **options)

    link = f"{world.url}/approvals?runId={waiting['runId']}#"
    assert asked.startswith("I write.\n\n[Waiting for a person: the tool office__send_mail needs approval. ")
    assert link in asked
    assert still.choices[0].message.content == asked.partition("\n\n")[2]
    assert decided.status_code == 200
    assert rest.strip() == "It is sent."
    assert last.choices[0].message.content == "Bye."
    assert office().sent == [("bob@example.org", "Hello Bob")]
    # The model got neither the notices nor the messages that went on.
    got = str(world.simulator.requests[-1].messages)
    assert not any(text in got for text in ("Waiting for a person", "Now?", "Go on."))
    assert "Thanks." in got
    assert len(await all_runs(world)) == 2


@every_agent_at_length
async def test_an_edit_is_answered_in_a_copy_and_equal_requests_are_runs_of_their_own(
    world_of: WorldOf, agent: str
) -> None:
    world = await world_of(echo, agent=agent)
    options: dict[str, Any] = {"model": f"{agent}:assistant"}
    opened: Messages = [says("I am Bob.")]

    async with a_client(world) as client:
        first = await client.chat.completions.create(messages=opened, **options)
        begun: Messages = [*opened, first.choices[0].message]
        again = [
            await client.chat.completions.create(messages=[*begun, says(text)], **options)
            for text in ("Who?", "Who?", "What?")
        ]
        foreign: Messages = [says("I am Al."), says("Hello Al.", "assistant"), says("Who?")]
        imported = await client.chat.completions.create(messages=foreign, **options)
        shown: Messages = [*foreign, imported.choices[0].message, says("Sure?")]
        on, _ = await streamed(client, messages=shown, **options)

    assert len({each.id for each in (first, *again, imported)}) == 5
    assert [each.choices[0].message.content for each in again] == [
        *("You said 3: Who?", "You said 3: Who?", "You said 3: What?")
    ]
    assert (imported.choices[0].message.content or "").endswith("Who?")
    assert on.endswith("Sure?")
    got = str([each for each in world.simulator.requests[-1].messages if each["role"] == "user"])
    assert [got.count(text) for text in ("I am Al.", "Sure?")] == [1, 1]
    runs = await all_runs(world)
    keys = [run["stateKey"] for run in reversed(runs)]
    # What follows an answer twice is a copy each time; the imported history is continued.
    assert [len(set(keys[:2])), len(set(keys[1:4])), len({*keys[1:4], *keys[4:]}), len(set(keys[4:]))] == [
        *(1, 3, 4, 1)
    ]
    copies = [(await world.http.get(f"/v1/sessions/{key}")).json() for key in keys[2:4]]
    assert [each["forkedFrom"] for each in copies] == [keys[0]] * 2
    assert all(run["status"] == "succeeded" for run in runs)


@every_agent_at_length
async def test_images_files_and_a_schema_are_passed_on_and_the_object_is_the_text(
    world_of: WorldOf, agent: str
) -> None:
    replies = {
        CLAUDE: Reply([ToolUse("StructuredOutput", {"color": "red"})]),
        MESSAGES: Reply([Text('{"color": "red"}')]),
    }
    world = await world_of(lambda _: replies[agent], agent=agent)
    schema = {
        "type": "object",
        "properties": {"color": {"type": "string"}},
        "required": ["color"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "a", "strict": True, "schema": schema}}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64(PIXEL)}"}}
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": b64(PDF)}}
    asked: Any = [says([{"type": "text", "text": "Which?"}, image, file])]
    options: dict[str, Any] = {"model": f"{agent}:assistant", "response_format": form}

    async with a_client(world) as client:
        whole = await client.chat.completions.create(messages=asked, **options)
        text, _ = await streamed(client, messages=asked, **options)

    assert whole.choices[0].message.content is not None
    assert [json.loads(each) for each in (whole.choices[0].message.content, text)] == [{"color": "red"}] * 2
    sent = str(world.simulator.requests[0].messages)
    assert b64(PIXEL) in sent
    assert b64(PDF) in sent


async def test_thinking_is_shown_if_the_graph_shows_it_and_what_has_no_effect_is_named(
    world_of: WorldOf, tmp_path: Path
) -> None:
    head = "description: Thinks.\nshow_thinking: true"
    graphs = graph_files(tmp_path, thinker=f"---\n{head}\n---\nThink.\n")
    replies = Reply([Thinking("Hm."), Text("Yes.")])
    world = await world_of(lambda _: replies, agent=MESSAGES, **graphs)
    options: dict[str, Any] = {"model": "messages:thinker", "messages": [says("Well?")]}

    async with a_client(world) as client:
        _, chunks = await streamed(client, **options)
        raw = await client.chat.completions.with_raw_response.create(
            **options,
            temperature=0,
            seed=1,
            reasoning_effort="low",
            tools=[PICK_COLOR],
        )
        models = [model async for model in client.models.list()]
        one = await client.models.retrieve("messages:thinker")

    thoughts = [getattr(each.choices[0].delta, "reasoning_content", None) or "" for each in chunks]
    assert "".join(thoughts) == "Hm."
    message: Any = raw.parse().choices[0].message
    assert (message.content, message.reasoning_content) == ("Yes.", "Hm.")
    assert raw.headers["runtally-ignored"] == "seed, temperature, tools"
    assert raw.headers["x-request-id"]
    assert world.simulator.requests[-1].body["output_config"]["effort"] == "low"
    assert "messages:thinker" in {model.id for model in models}
    assert (one.id, getattr(one, "description", None)) == ("messages:thinker", "Thinks.")


async def test_errors_are_those_that_the_client_knows(world_of: WorldOf) -> None:
    world = await world_of(lambda _: HttpError(400, "invalid_request_error"), agent=MESSAGES)
    options: dict[str, Any] = {"model": "messages:assistant", "messages": [says("hi")]}
    refused = {
        openai.AuthenticationError: ("invalid_api_key", None, {}, "rt_" + "x" * 43),
        openai.NotFoundError: ("model_not_found", None, {"model": "messages:none"}, KEY),
    }
    unprocessable: dict[str, dict[str, Any]] = {
        "n": {"n": 2},
        "logprobs": {"logprobs": True},
        "tool_choice": {"tool_choice": "required"},
        "messages.0": {"messages": [says("hi", "assistant")]},
        "messages.0.content.0.type": {"messages": [says([{"type": "input_audio", "input_audio": {}}])]},
        "messages": {"messages": []},
    }

    found: dict[str, Any] = {}
    for kind, (code, param, wrong, key) in refused.items():
        async with a_client(world, key) as client:
            with pytest.raises(kind) as caught:
                await client.chat.completions.create(**{**options, **wrong})
        assert (caught.value.code, caught.value.param) == (code, param)
    async with a_client(world) as client:
        for param, wrong in unprocessable.items():
            with pytest.raises(openai.UnprocessableEntityError) as unusable:
                await client.chat.completions.create(**{**options, **wrong})
            found[param] = unusable.value.param
            assert unusable.value.type == "invalid_request_error"
        with pytest.raises(openai.UnprocessableEntityError) as failed:
            await client.chat.completions.create(**options)
        with pytest.raises(openai.APIError, match="rejected the request as invalid") as cut:
            await streamed(client, **options)

    assert failed.value.response.headers["x-should-retry"] == "false"
    assert "secret upstream detail" not in f"{failed.value} {cut.value}"
    assert found == {name: name for name in unprocessable}


async def test_a_client_that_leaves_does_not_end_the_run(world_of: WorldOf) -> None:
    hold = Hold(index=4)
    world = await world_of(lambda _: Reply([Text("one two three")], hold=hold), agent=MESSAGES)

    async with a_client(world) as client:
        stream = await client.chat.completions.create(
            model="messages:assistant",
            messages=[says("hi")],
            stream=True,
        )
        await hold.reached.wait()
        await stream.close()
    hold.until.set()

    (run,) = await all_runs(world)
    ended = await world.ended(run["runId"])
    assert ended["final"]["content"] == "one two three"
    assert len(await world.receipts(run["runId"])) == 1
