"""Conversations and input items with OpenAI's own Python client, unmodified."""

import asyncio
from pathlib import Path
from typing import Any

import openai
import pytest

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.clients.test_openai_python import a_client, all_runs, echo, heard
from tests.clients.test_openai_responses import PICK_COLOR
from tests.e2e.agents import MESSAGES, every_agent_at_length
from tests.e2e.office import MAIL
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import WorldOf
from tests.e2e.test_a_client_brings_tools import PICK
from tests.e2e.test_a_client_brings_tools import settings as helper_settings
from tests.media import PDF, PIXEL, b64
from tests.patience import until_shown


def said(items: Any) -> list[tuple[str, str]]:
    """Who says what in these messages."""
    return [(each.role, each.content[0].text) for each in items]


@every_agent_at_length
async def test_a_conversation_begins_with_its_items_and_has_what_was_asked_and_answered(
    world_of: WorldOf, agent: str
) -> None:
    world = await world_of(in_turn(Reply([Text("Bob.")]), Reply([Text("Yes.")])), agent=agent)
    options: dict[str, Any] = {"model": f"{agent}:assistant"}
    begin: Any = [{"role": "user", "content": "I am Bob."}, {"role": "assistant", "content": "Hello Bob."}]

    async with a_client(world) as client:
        created = await client.conversations.create(items=begin, metadata={"topic": "names"})
        at_first = [each async for each in client.conversations.items.list(created.id, order="asc")]
        first = await client.responses.create(input="Who am I?", conversation=created.id, **options)
        second = await client.responses.create(input="Sure?", conversation={"id": created.id}, **options)
        # Page by page, from the newest one.
        newest = [each async for each in client.conversations.items.list(created.id, limit=2)]
        found: Any = await client.conversations.items.retrieve(newest[0].id or "", conversation_id=created.id)
        asked = [each async for each in client.responses.input_items.list(first.id, order="asc", limit=1)]
        more: Any = {"conversation_id": created.id, "items": begin}
        with pytest.raises(openai.ConflictError, match="what its runs were asked"):
            await client.conversations.items.create(**more)
        for known in (newest[0], at_first[0]):
            with pytest.raises(openai.ConflictError, match="what its runs were asked"):
                await client.conversations.items.delete(known.id or "", conversation_id=created.id)
        updated = await client.conversations.update(created.id, metadata={"topic": "birds"})
        read = await client.conversations.retrieve(created.id)
        await client.responses.delete(second.id)
        left = [each async for each in client.conversations.items.list(created.id)]
        with pytest.raises(openai.APIStatusError) as gone:
            await client.responses.input_items.list(second.id)
        await client.conversations.delete(created.id)
        for missing in (created.id, f"conv_{'0' * 32}"):
            with pytest.raises(openai.NotFoundError):
                await client.responses.create(input="Again?", conversation=missing, **options)
            with pytest.raises(openai.NotFoundError):
                await client.conversations.items.list(missing)

    answers = [("assistant", "Bob."), ("assistant", "Yes.")]
    history = [("user", "I am Bob."), ("assistant", "Hello Bob.")]
    whole = [*history, ("user", "Who am I?"), answers[0], ("user", "Sure?"), answers[1]]
    assert [first.output_text, second.output_text] == [text for _, text in answers]
    assert all(text in str(world.simulator.requests[0].messages) for _, text in history)
    assert said(at_first) == history
    assert said(reversed(newest)) == whole
    assert (found, newest[0].id) == (newest[0], second.output[0].id)
    assert [each.id for each in asked] == [each.id for each in reversed(newest[-3:])]
    assert [each.id for each in at_first] == [each.id for each in asked[:2]]
    assert (created.metadata, updated) == ({"topic": "names"}, read)
    assert read.metadata == {"topic": "birds"}
    assert said(reversed(left)) == whole[:4]
    assert gone.value.status_code == 410
    runs = await all_runs(world)
    assert {run["stateKey"] for run in runs} == {created.id}
    assert len(runs) == 2


async def test_of_two_first_responses_at_once_both_know_the_items(world_of: WorldOf) -> None:
    world = await world_of(echo, agent=MESSAGES)
    options: dict[str, Any] = {"model": "messages:assistant", "input": "Who am I?"}

    async with a_client(world) as client:
        created = await client.conversations.create(items=[{"role": "user", "content": "I am Bob."}])
        both = [client.responses.create(conversation=created.id, **options) for _ in range(2)]
        answers = [each.output_text for each in await asyncio.gather(*both)]
        items = [each async for each in client.conversations.items.list(created.id, order="asc")]

    assert len(await all_runs(world)) == 2
    assert said(items)[0] == ("user", "I am Bob.")
    assert [role for role, _ in said(items)] == ["user", "user", "assistant", "user", "assistant"]
    assert sorted(answers) == sorted(text for role, text in said(items) if role == "assistant")
    assert all(heard(request)[0][1].startswith("I am Bob.") for request in world.simulator.requests)


async def test_an_erasure_takes_a_conversation_with_its_items(world_of: WorldOf) -> None:
    world = await world_of(echo, agent=MESSAGES)
    options: dict[str, Any] = {"model": "messages:assistant", "safety_identifier": "ann"}

    async with a_client(world) as client:
        created = await client.conversations.create(items=[{"role": "user", "content": "I am Ann."}])
        answer = await client.responses.create(input="Hello.", conversation=created.id, **options)
        erasure = (await world.http.delete("/v1/end-users/ann")).raise_for_status()
        await until_shown(world.http, erasure.headers["location"], lambda job: job["status"] == "completed")
        with pytest.raises(openai.NotFoundError):
            await client.conversations.items.list(created.id)
        with pytest.raises(openai.APIStatusError) as gone:
            await client.responses.input_items.list(answer.id)

    assert gone.value.status_code == 410


async def test_calls_and_results_are_items_under_the_ids_of_their_responses(
    world_of: WorldOf, tmp_path: Path
) -> None:
    script = in_turn(
        Reply([Text("Wait."), ToolUse(PICK, {"about": "sky"})]),
        Reply([ToolUse(PICK, {"about": "sea"})]),
        Reply([Text("Blue and green.")]),
    )
    world = await world_of(script, agent=MESSAGES, **helper_settings(tmp_path))
    options: dict[str, Any] = {"model": "messages:helper", "tools": [PICK_COLOR]}

    async with a_client(world) as client:
        created = await client.conversations.create()
        responses = [await client.responses.create(input="Which colors?", conversation=created.id, **options)]
        for color in ("blue", "green"):
            call: Any = responses[-1].output[-1]
            result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": color}
            responses.append(await client.responses.create(input=[result], **options))
        asked = [[item async for item in client.responses.input_items.list(each.id)] for each in responses]
        items = [item async for item in client.conversations.items.list(created.id, order="asc", limit=3)]

    by_response = [[*before, *each.output] for before, each in zip(asked, responses, strict=True)]
    assert [item.id for item in items] == [item.id for each in by_response for item in each]
    assert [item.type for item in items] == [
        *("message", "message", "function_call", "function_call_output"),
        *("function_call", "function_call_output", "message"),
    ]
    results: list[Any] = [item for item in items if item.type == "function_call_output"]
    calls: list[Any] = [item for item in items if item.type == "function_call"]
    assert [result.output for result in results] == ["blue", "green"]
    assert [result.call_id for result in results] == [call.call_id for call in calls]


async def test_a_decision_and_attachments_are_items(world_of: WorldOf, tmp_path: Path) -> None:
    mail = {"to": "bob@example.org", "text": "Hello Bob"}
    script = in_turn(Reply([ToolUse(MAIL, mail)]), Reply([Text("Done.")]))
    world = await world_of(script, agent=MESSAGES, **office_settings(tmp_path))
    image = f"data:image/png;base64,{b64(PIXEL)}"
    parts: Any = [
        {"type": "input_text", "text": "Write to Bob."},
        {"type": "input_image", "detail": "auto", "image_url": image},
        {"type": "input_file", "filename": "a.pdf", "file_data": b64(PDF)},
    ]
    options: dict[str, Any] = {"model": "messages:mailer"}

    async with a_client(world) as client:
        asked = await client.responses.create(input=[{"role": "user", "content": parts}], **options)
        request = asked.output[-1]
        answer: Any = {"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}
        done = await client.responses.create(input=[answer], **options)
        (decided,) = [each async for each in client.responses.input_items.list(done.id)]
        (plain,) = [each async for each in client.responses.input_items.list(asked.id)]
        (shown,) = [
            each
            async for each in client.responses.input_items.list(
                asked.id, include=["message.input_image.image_url"]
            )
        ]

    found: Any = decided
    assert (found.type, found.approve, found.approval_request_id) == (answer["type"], True, request.id)
    contents: list[Any] = [each.content for each in (plain, shown) if each.type == "message"]
    assert [content[1].image_url for content in contents] == [None, image]
    assert [content[2].filename for content in contents] == ["a.pdf", "a.pdf"]
    assert b64(PDF) not in str(contents)
