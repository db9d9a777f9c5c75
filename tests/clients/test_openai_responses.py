"""Responses with OpenAI's own Python client, unmodified: what is seen, what the model got, the bill."""

from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel

from app.simulator.script import Hold, HttpError, Reply, Text, Thinking, ToolUse, in_turn
from tests.clients.test_openai_python import a_client, all_runs, echo, heard
from tests.e2e.agents import CLAUDE, MESSAGES, every_agent, every_agent_at_length
from tests.e2e.office import MAIL, office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import WorldOf
from tests.e2e.test_a_client_brings_tools import PICK
from tests.e2e.test_a_client_brings_tools import settings as helper_settings
from tests.graph_files import graph_files
from tests.media import PDF, PIXEL, b64

PICK_COLOR: Any = {
    "type": "function",
    "name": "pick_color",
    "description": "Pick a color on the screen.",
    "parameters": {"type": "object", "properties": {"about": {"type": "string"}}},
    "strict": True,
}


class Color(BaseModel):
    """The answer as an object."""

    color: str


async def streamed(client: AsyncOpenAI, **request: Any) -> tuple[Any, list[Any]]:
    """The response that the client puts together, and all events."""
    async with client.responses.stream(**request) as stream:
        events = [event async for event in stream]
        return await stream.get_final_response(), events


@every_agent
async def test_responses_follow_each_other_and_each_run_is_on_the_bill(world_of: WorldOf, agent: str) -> None:
    world = await world_of(echo, agent=agent)
    options: dict[str, Any] = {"model": f"{agent}:assistant", "safety_identifier": "bob"}

    async with a_client(world) as client:
        first = await client.responses.create(input="I am Bob.", metadata={"chat": "1"}, **options)
        second, events = await streamed(client, input="Who am I?", previous_response_id=first.id, **options)
        again = await client.responses.create(input="Who am I?", previous_response_id=first.id, **options)
        named = await client.responses.create(input="Sure?", conversation=second.conversation.id, **options)
        posted: Any = [*second.output, {"role": "user", "content": "Sure?"}]
        history: Any = [{"role": "user", "content": "Hello."}]
        begun = await client.responses.create(input=history, **options)
        history += [*begun.output, {"role": "user", "content": "And?"}]
        onward = await client.responses.create(input=history, **options)
        known: Any = [{"type": "item_reference", "id": onward.output[0].id}, history[-1]]
        referred = await client.responses.create(input=known, **options)
        with pytest.raises(openai.UnprocessableEntityError, match="must not be assistant"):
            await client.responses.create(input=posted, previous_response_id=second.id, **options)

    assert [each.output_text for each in (first, second, again, named, begun, onward, referred)] == [
        *("You said 1: I am Bob.", "You said 3: Who am I?", "You said 3: Who am I?", "You said 5: Sure?"),
        *("You said 1: Hello.", "You said 3: And?", "You said 5: And?"),
    ]
    assert heard(world.simulator.requests[3])[-3:] == [
        *(("user", "Who am I?"), ("assistant", second.output_text), ("user", "Sure?")),
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    kinds = [event.type.removeprefix("response.") for event in events]
    assert [each for each in kinds if each != "output_text.delta"] == [
        *("created", "in_progress", "output_item.added", "content_part.added", "output_text.done"),
        *("content_part.done", "output_item.done", "completed"),
    ]
    runs = list(reversed(await all_runs(world)))
    assert first.id == f"resp_{runs[0]['runId']}"
    keys = [run["stateKey"] for run in runs]
    # The second answer to the same response is in a copy.
    assert [keys[0] == each for each in keys[:4]] == [True, True, False, True]
    assert len(set(keys[4:])) == 1
    assert (await world.http.get(f"/v1/sessions/{keys[2]}")).json()["forkedFrom"] == keys[0]
    assert (runs[0]["endUser"], runs[0]["metadata"], first.metadata) == ("bob", {"chat": "1"}, {"chat": "1"})
    (receipt,) = await world.receipts(runs[1]["runId"])
    usage = second.usage
    assert (receipt["endUser"], receipt["outputTokens"]) == ("bob", usage.output_tokens)
    assert usage.input_tokens_details.cached_tokens == receipt["cacheReadTokens"]
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens > 0


@every_agent_at_length
@pytest.mark.parametrize("names_previous", [False, True])
async def test_the_client_executes_functions_and_the_same_run_goes_on(
    world_of: WorldOf, tmp_path: Path, agent: str, *, names_previous: bool
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
    options: dict[str, Any] = {"model": f"{agent}:helper", "tools": [PICK_COLOR]}
    items: Any = [{"role": "user", "content": "Which colors?"}]

    async with a_client(world) as client:
        asked, _ = await streamed(client, input=items, **options)
        calls = [each for each in asked.output if each.type == "function_call"]
        assert [call.name for call in calls] == ["pick_color", "pick_color"]
        results: Any = [
            {"type": "function_call_output", "call_id": call.call_id, "output": color}
            for call, color in zip(calls, ("blue", "green"), strict=True)
        ]
        if names_previous:
            with pytest.raises(openai.UnprocessableEntityError, match="results of the calls"):
                await client.responses.create(input="No.", previous_response_id=asked.id, **options)
            known: dict[str, Any] = {"input": results, "previous_response_id": asked.id}
        else:
            items += [*asked.output, *results]
            known = {"input": items}
        done = await client.responses.create(**known, **options)
        again = await client.responses.create(**known, **options)
        other = [*known["input"][:-1], {**results[-1], "output": "gray"}]
        with pytest.raises(openai.ConflictError, match="another result") as refused:
            await client.responses.create(**{**known, "input": other}, **options)
        if names_previous:
            last = await client.responses.create(input="Sure?", previous_response_id=done.id, **options)
        else:
            items += [*done.output, {"role": "user", "content": "Sure?"}]
            last = await client.responses.create(input=items, **options)
        read = [await client.responses.retrieve(each.id) for each in (asked, done)]

    assert [each.output_text for each in (asked, done, last)] == ["Wait.", "Blue and green.", "Yes."]
    assert [each.status for each in (asked, done, last)] == ["completed"] * 3
    assert asked.id != done.id == again.id
    assert refused.value.code == "tool_call_answered"
    # What a response was is what is read of it later.
    items_of = [[item.id for item in each.output] for each in (asked, done, *read)]
    assert items_of[:2] == items_of[2:]
    told = str(world.simulator.requests[1].tool_results)
    assert "blue" in told
    assert "green" in told
    assert "tool_result" in str(world.simulator.requests[2].messages)
    assert [run["status"] for run in await all_runs(world)] == ["succeeded"] * 2


@every_agent_at_length
@pytest.mark.parametrize("approve", [False, True])
async def test_a_person_approves_a_call_in_an_item_and_the_same_run_goes_on(
    world_of: WorldOf, tmp_path: Path, agent: str, *, approve: bool
) -> None:
    mail = {"to": "bob@example.org", "text": "Hello Bob"}
    script = in_turn(Reply([Text("I write."), ToolUse(MAIL, mail)]), Reply([Text("Done.")]))
    world = await world_of(script, agent=agent, **office_settings(tmp_path))
    options: dict[str, Any] = {"model": f"{agent}:mailer"}

    async with a_client(world) as client:
        asked, _ = await streamed(client, input="Write to Bob.", **options)
        request = asked.output[-1]
        answer: Any = {"type": "mcp_approval_response", "approval_request_id": request.id}
        answer |= {"approve": approve, "reason": "Because."}
        done = await client.responses.create(input=[answer], previous_response_id=asked.id, **options)
        # Twice, and the other way: it was decided.
        answer["approve"] = not approve
        twice = await client.responses.create(input=[answer], previous_response_id=asked.id, **options)
        read = await client.responses.retrieve(asked.id)
        unknown: Any = {**answer, "approval_request_id": f"{request.id}x"}
        with pytest.raises(openai.NotFoundError):
            await client.responses.create(input=[unknown], **options)
    _, writer = await world.services.accounts.create_key("default", ["runs:write", "runs:read"])
    async with a_client(world, writer) as client:
        with pytest.raises(openai.PermissionDeniedError, match="runs:approve"):
            await client.responses.create(input=[answer], **options)

    assert [each.type for each in asked.output] == ["message", "mcp_approval_request"]
    assert (request.name, request.server_label) == ("office__send_mail", "runtally")
    assert "bob@example.org" in request.arguments
    assert [each.output_text for each in (done, twice)] == ["Done.", "Done."]
    assert [each.type for each in read.output] == ["message", "mcp_approval_request"]
    assert office().sent == ([("bob@example.org", "Hello Bob")] if approve else [])
    assert ("Because." in str(world.simulator.requests[1].tool_results)) is not approve
    assert [run["status"] for run in await all_runs(world)] == ["succeeded"]


async def test_any_message_after_a_person_has_decided_elsewhere_goes_on(
    world_of: WorldOf, tmp_path: Path
) -> None:
    mail = {"to": "bob@example.org", "text": "Hello Bob"}
    script = in_turn(Reply([ToolUse(MAIL, mail)]), Reply([Text("Done.")]), Reply([Text("Bye.")]))
    world = await world_of(script, agent=MESSAGES, **office_settings(tmp_path))
    options: dict[str, Any] = {"model": "messages:mailer"}

    async with a_client(world) as client:
        asked = await client.responses.create(input="Write to Bob.", **options)
        still = await client.responses.create(input="Now?", previous_response_id=asked.id, **options)
        (waiting,) = (await world.http.get("/v1/approvals")).raise_for_status().json()["items"]
        place = f"/v1/runs/{waiting['runId']}/permissions/{waiting['requestId']}"
        (await world.http.post(place, json={"decision": "allow"})).raise_for_status()
        await world.ended(waiting["runId"])
        done = await client.responses.create(input="Go on.", previous_response_id=still.id, **options)
        last = await client.responses.create(input="Thanks.", previous_response_id=done.id, **options)

    assert asked.output[-1].type == "mcp_approval_request"
    assert asked == still
    assert [done.output_text, last.output_text] == ["Done.", "Bye."]
    assert "Go on." not in str(world.simulator.requests[-1].messages)
    assert len(await all_runs(world)) == 2


async def test_a_background_response_is_read_resumed_cancelled_and_deleted(world_of: WorldOf) -> None:
    hold, held = Hold(index=4), Hold(index=4)
    replies = [Reply([Text("one two three")], hold=hold), Reply([Text("four five")], hold=held)]
    # A reader that leaves would end the run otherwise.
    world = await world_of(in_turn(*replies), agent=MESSAGES, RUNTALLY_ON_DISCONNECT="cancel")
    options: dict[str, Any] = {"model": "messages:assistant", "background": True}

    async with a_client(world) as client:
        stream: Any = await client.responses.create(input="hi", stream=True, **options)
        seen: list[Any] = []
        async for event in stream:
            seen.append(event)
            if event.type == "response.output_text.delta":
                break
        await stream.close()
        created: Any = seen[0]
        name = created.response.id
        going = await client.responses.retrieve(name)
        hold.until.set()
        last = seen[-1].sequence_number
        rest: list[Any] = [
            event async for event in await client.responses.retrieve(name, stream=True, starting_after=last)
        ]
        whole = [event async for event in await client.responses.retrieve(name, stream=True)]
        read = await client.responses.retrieve(name)

        begun = await client.responses.create(input="hi", **options)
        await held.reached.wait()
        stopped = await client.responses.cancel(begun.id)
        ended = await world.ended(begun.id.removeprefix("resp_"))
        cancelled = await client.responses.retrieve(begun.id)
        await client.responses.delete(name)
        with pytest.raises(openai.APIStatusError) as gone:
            await client.responses.retrieve(name)

    assert going.status == "in_progress"
    assert [each.model_dump() for each in [*seen, *rest]] == [each.model_dump() for each in whole]
    assert (read.status, read.output_text) == ("completed", "one two three")
    assert read == rest[-1].response
    assert begun.status in {"queued", "in_progress"}
    assert [ended["status"], stopped.status, cancelled.status] == ["cancelled"] * 3
    assert gone.value.status_code == 410
    assert len(await world.receipts(name.removeprefix("resp_"))) == 1


@every_agent_at_length
async def test_attachments_are_passed_on_and_an_object_is_parsed(world_of: WorldOf, agent: str) -> None:
    replies = {
        CLAUDE: Reply([ToolUse("StructuredOutput", {"color": "red"})]),
        MESSAGES: Reply([Text('{"color": "red"}')]),
    }
    world = await world_of(lambda _: replies[agent], agent=agent)
    parts: Any = [
        {"type": "input_text", "text": "Which?"},
        {"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{b64(PIXEL)}"},
        {"type": "input_file", "filename": "a.pdf", "file_data": b64(PDF)},
    ]
    asked: Any = [{"role": "user", "content": parts}]
    options: dict[str, Any] = {"model": f"{agent}:assistant", "input": asked, "text_format": Color}

    async with a_client(world) as client:
        parsed = await client.responses.parse(**options)
        streamed_, _ = await streamed(client, **options)
        read = await client.responses.retrieve(parsed.id)

    assert [each.output_parsed for each in (parsed, streamed_)] == [Color(color="red")] * 2
    assert read.output_text == parsed.output_text
    sent = str(world.simulator.requests[0].messages)
    assert b64(PIXEL) in sent
    assert b64(PDF) in sent


async def test_thinking_is_a_reasoning_item_and_what_has_no_effect_is_named(
    world_of: WorldOf, tmp_path: Path
) -> None:
    head = "description: Thinks.\nshow_thinking: true\nallow_system_messages: true"
    graphs = graph_files(tmp_path, thinker=f"---\n{head}\n---\nThink.\n")
    reply = Reply([Thinking("Hm."), Text("Yes.")])
    world = await world_of(lambda _: reply, agent=MESSAGES, **graphs)
    options: dict[str, Any] = {"model": "messages:thinker", "input": "Well?", "instructions": "Be brief."}

    async with a_client(world) as client:
        final, events = await streamed(client, **options)
        raw = await client.responses.with_raw_response.create(
            **options,
            temperature=0,
            store=False,
            reasoning={"effort": "low"},
            tools=[PICK_COLOR, {"type": "web_search"}],
        )

    thought, message = final.output
    assert (thought.type, thought.summary[0].text, message.type) == ("reasoning", "Hm.", "message")
    deltas = [each.delta for each in events if each.type == "response.reasoning_summary_text.delta"]
    assert "".join(deltas) == "Hm."
    assert raw.headers["runtally-ignored"] == "store, temperature, tools, tools.web_search"
    sent = world.simulator.requests[-1].body
    assert sent["output_config"]["effort"] == "low"
    assert "Be brief." in str(sent["system"])


async def test_errors_are_those_that_the_client_knows(world_of: WorldOf) -> None:
    world = await world_of(lambda _: HttpError(400, "invalid_request_error"), agent=MESSAGES)
    options: dict[str, Any] = {"model": "messages:assistant", "input": "hi"}
    output, approval = "function_call_output", "mcp_approval_response"
    unprocessable: dict[str, dict[str, Any]] = {
        "input": {"input": " "},
        "input.0": {"input": [{"type": output, "output": "x"}]},
        "input.0.role": {"input": [{"role": "tool", "content": "x"}]},
        "input.0.content.0.type": {"input": [{"role": "user", "content": [{"type": "input_audio"}]}]},
        "input.1": {"input": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]},
        "input.0.approve": {"input": [{"type": approval, "approval_request_id": "x", "approve": "yes"}]},
        "tool_choice": {"tool_choice": "required"},
        "top_logprobs": {"top_logprobs": 2},
        "prompt": {"prompt": {"id": "x"}},
        "conversation": {"conversation": "c", "previous_response_id": "resp_x"},
        "previous_response_id": {"previous_response_id": "resp_" + "x" * 400},
    }

    found: dict[str, Any] = {}
    async with a_client(world) as client:
        for param, wrong in unprocessable.items():
            with pytest.raises(openai.UnprocessableEntityError) as unusable:
                await client.responses.create(**{**options, **wrong})
            found[param] = unusable.value.param
        for missing in ({"model": "messages:none"}, {"previous_response_id": "resp_none"}):
            with pytest.raises(openai.NotFoundError):
                await client.responses.create(**{**options, **missing})
        for unknown in ("resp_none", "none", "resp_a~b", "resp_" + "x" * 200):
            with pytest.raises(openai.NotFoundError):
                await client.responses.retrieve(unknown)
        with pytest.raises(openai.UnprocessableEntityError) as failed:
            await client.responses.create(**options)
        *_, last = [event async for event in await client.responses.create(**options, stream=True)]

    assert found == {name: name for name in unprocessable}
    assert failed.value.response.headers["x-should-retry"] == "false"
    assert last.type == "response.failed"
    assert (last.response.status, last.response.error.code) == ("failed", "invalid_prompt")
    assert "secret upstream detail" not in f"{failed.value} {last}"
