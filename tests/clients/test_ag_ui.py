"""The real `HttpAgent` of @ag-ui/client, which verifies every event, against a running server."""

import json
from pathlib import Path
from typing import Any

from app.simulator.script import (
    ApiRequest,
    Hold,
    HttpError,
    Reply,
    Responder,
    Text,
    Thinking,
    ToolUse,
    in_turn,
    text_of,
)
from tests.clients.node import node
from tests.e2e.agents import MESSAGES, without_cli
from tests.e2e.office import MAIL, office, settings
from tests.e2e.stories import CLOCK, KEY, World, WorldOf
from tests.graph_files import graph_files
from tests.web_pages import SNOW, a_search, cited

ODD = 'one two\u2028 three\U0001f600 \x85 \\u2028 "quoted"\r\n\r\ndata: four\n\n five'
ASSISTANT, MAILER = f"{MESSAGES}:assistant", f"{MESSAGES}:mailer"
MAIL_TO_BOB = {"to": "bob@example.org", "text": "Hello Bob"}
MAIL_TO_ALICE = {"to": "alice@example.org", "text": "Hello Alice"}


def by_prompt(**scripts: Responder) -> Responder:
    """Each script answers the runs whose prompt begins with its name."""

    def respond(request: ApiRequest) -> Any:
        texts = [text_of(m["content"]) for m in request.messages if m["role"] == "user"]
        prompt = next(text for text in reversed(texts) if text.partition(" ")[0] in scripts)
        return scripts[prompt.partition(" ")[0]](request)

    return respond


async def played(world: World, *scenes: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """The events that the client received, by scene and step; it must not have reported errors."""
    given = json.dumps({"url": world.url, "key": KEY, "scenes": scenes})
    printed = json.loads(await node("ag_ui.mjs", given=given))
    assert printed["warnings"] == []
    received: list[list[dict[str, Any]]] = printed["scenes"]
    return received


def a_scene(
    *steps: dict[str, Any], graph: str = ASSISTANT, thread: str = "t-1", **fields: Any
) -> dict[str, Any]:
    return {"graph": graph, "threadId": thread, "steps": steps, **fields}


def kinds(step: dict[str, Any]) -> list[str]:
    return [event["type"] for event in step["events"]]


def of(step: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [event for event in step["events"] if event["type"] == kind]


@without_cli
async def test_texts_arrive_unchanged(world_of: WorldOf) -> None:
    long = "x" * 300_000
    world = await world_of(
        by_prompt(odd=in_turn(Reply([Text(ODD)])), long=in_turn(Reply([Text(f"{long} end")])))
    )

    (odd,), (line,) = await played(world, a_scene({"send": "odd"}), a_scene({"send": "long"}, thread="t-2"))

    assert odd["messages"][-1]["content"] == ODD
    assert odd["result"] == {"content": ODD, "contextUsed": 30, "contextWindow": 1_000_000}
    assert kinds(odd)[0] == "RUN_STARTED"
    (end,) = of(odd, "RUN_FINISHED")
    assert end["outcome"] == {"type": "success"}
    assert end["usage"] == [{"inputTokens": 10, "outputTokens": 20, "totalTokens": 30}]
    assert line["messages"][-1]["content"] == f"{long} end"


@without_cli
async def test_a_conversation_has_thinking_tools_and_a_second_turn(world_of: WorldOf) -> None:
    turns = in_turn(
        Reply([Thinking("Hm."), Text("Let me look."), ToolUse(CLOCK, {"timezone": "Asia/Tokyo"})]),
        Reply([Text("Ten to twelve.")]),
        Reply([Text("You are welcome.")]),
    )
    world = await world_of(by_prompt(time=turns, thanks=turns))

    ((first, second),) = await played(
        world, a_scene({"send": "time"}, {"send": "thanks"}, graph=f"{MESSAGES}:analyst")
    )

    roles = ["user", "reasoning", "assistant", "tool", "assistant"]
    assert [message["role"] for message in first["messages"]] == roles
    _, reasoning, call, result, answer = first["messages"]
    assert reasoning["content"] == "Hm."
    assert call["content"] == "Let me look."
    assert call["toolCalls"][0]["function"] == {
        "name": "core__get_current_time",
        "arguments": '{"timezone":"Asia/Tokyo"}',
    }
    assert result["toolCallId"] == call["toolCalls"][0]["id"]
    assert json.loads(result["content"])["timezone"] == "Asia/Tokyo"
    assert answer["content"] == "Ten to twelve."
    assert [step["stepName"] for step in of(first, "STEP_FINISHED")] == ["step 1", "step 2"]
    assert next(event["name"] for event in of(first, "CUSTOM")) == "run_started"
    assert second["messages"][-1]["content"] == "You are welcome."
    contents = [text_of(message["content"]) for message in world.simulator.requests[-1].messages]
    assert contents[0] == "time"
    assert contents[-1] == "thanks"
    assert len(await sessions(world)) == 1


@without_cli
async def test_a_search_and_its_citations_are_part_of_one_answer(world_of: WorldOf) -> None:
    answer = [Text("Let me look. "), *a_search(), Text("It snows.", citations=[cited()]), Text(" Bye.")]
    world = await world_of(by_prompt(snow=in_turn(Reply(answer)), sure=in_turn(Reply([Text("Yes.")]))))

    ((step, again),) = await played(world, a_scene({"send": "snow"}, {"send": "sure"}))

    assert [message["role"] for message in step["messages"]] == ["user", "assistant", "tool"]
    _, message, found = step["messages"]
    assert message["content"] == "Let me look. It snows. Bye."
    assert message["toolCalls"][0]["function"]["name"] == "web_search"
    assert json.loads(found["content"]) == {"pages": [{"url": SNOW, "title": "Snow"}]}
    (citation,) = [event["value"] for event in of(step, "CUSTOM") if event["name"] == "citation"]
    assert (citation["url"], citation["citedText"]) == (SNOW, "It snows.")
    assert again["messages"][-1]["content"] == "Yes."


@without_cli
async def test_failed_and_cancelled_runs_have_their_own_outcomes(world_of: WorldOf) -> None:
    world = await world_of(
        by_prompt(
            fail=in_turn(HttpError(400, "invalid_request_error")),
            stop=in_turn(Reply([Text("one two three four")], hold=Hold(index=5))),
        )
    )

    (failed,), (stopped,) = await played(
        world, a_scene({"send": "fail"}), a_scene({"send": "stop", "cancelAt": "two"}, thread="t-2")
    )

    (error,) = of(failed, "RUN_ERROR")
    assert error["code"] == "invalid_request"
    assert "secret" not in json.dumps(failed["events"])
    assert kinds(failed)[-1] == "RUN_ERROR"
    assert stopped["events"][-1]["outcome"] == {"type": "cancelled"}
    assert stopped["messages"][-1]["content"].startswith("one two")
    assert "TEXT_MESSAGE_END" in kinds(stopped)


@without_cli
async def test_a_reconnected_client_receives_the_whole_answer_once(world_of: WorldOf) -> None:
    words = " ".join(f"word-{number}" for number in range(40))
    slow = Reply([Thinking("Hm, hm."), Text(words)], delta_delay_s=0.02)
    world = await world_of(by_prompt(long=in_turn(slow), more=in_turn(Reply([Text("More.")]))))
    steps = ({"send": "long", "dropAt": "word-5"}, {"again": True}, {"again": True}, {"send": "more"})

    ((dropped, back, replayed, more),) = await played(world, a_scene(*steps, graph=f"{MESSAGES}:analyst"))

    assert dropped["messages"][-1]["content"] != words
    assert (back["before"], replayed["before"]) == ("running", "succeeded")
    for received in (back, replayed):
        assert [m["content"] for m in received["messages"]] == ["long", "Hm, hm.", words]
    assert kinds(back)[:2] == ["RUN_STARTED", "MESSAGES_SNAPSHOT"]
    assert replayed["events"] == back["events"]
    assert more["messages"][-1]["content"] == "More."
    assert len(world.simulator.requests) == 2


@without_cli
async def test_a_tool_call_waits_for_an_answer_between_two_runs(world_of: WorldOf, tmp_path: Path) -> None:
    replies = in_turn(*(Reply([ToolUse(MAIL, MAIL_TO_BOB)]) for _ in range(2)), Reply([Text("So be it.")]))
    world = await world_of(by_prompt(write=replies), **settings(tmp_path))
    changed = {"status": "resolved", "payload": {"approved": True, "editedArgs": MAIL_TO_ALICE}}
    denied = {"status": "resolved", "payload": {"approved": False, "message": "Not to Bob."}}
    steps = ({"send": "write"}, {"answer": changed}, {"answer": denied}, {"again": True})

    ((paused, allowed, ended, again),) = await played(world, a_scene(*steps, graph=MAILER))

    assert paused["events"][-1]["outcome"]["type"] == "interrupt"
    (interrupt,) = paused["pending"]
    assert interrupt["reason"] == "tool_call"
    asked = {"toolName": "office__send_mail", "args": MAIL_TO_BOB, "grantable": True}
    assert interrupt["metadata"]["runtally"] == asked
    assert office().sent == [("alice@example.org", "Hello Alice")]
    assert kinds(allowed)[:2] == ["RUN_STARTED", "CUSTOM"]
    assert allowed["events"][0]["runId"] == allowed["runId"] != paused["runId"]
    assert "TOOL_CALL_RESULT" in kinds(allowed)
    assert len(allowed["pending"]) == 1
    assert ended["messages"][-1]["content"] == "So be it."
    assert [step["stepName"] for step in of(ended, "STEP_FINISHED")] == ["step 3"]
    assert ended["pending"] == []
    assert len({message["id"] for message in again["messages"]}) == len(again["messages"]) == 6


async def sessions(world: World) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = (await world.http.get("/v1/sessions")).json()["items"]
    return items


@without_cli
async def test_the_client_executes_its_own_tools(world_of: WorldOf, tmp_path: Path) -> None:
    """Also beside a tool of ours, after it has come back, and when its person moves on instead."""

    def respond(request: ApiRequest) -> Any:
        if request.tool_results or request.last_text != "pick":
            return Reply([Text(f"Heard {request.last_text or 'them'}.")])
        calls = [ToolUse("client-pick", {"about": "sky"}), ToolUse(CLOCK, {"timezone": "UTC"})]
        return Reply([Text("Look."), *calls, ToolUse("client-pick", {"about": "sea"})])

    helper = "---\ndescription: Helps.\ntools: [core__get_current_time]\nclient_tools: true\n---\nHelp.\n"
    world = await world_of(respond, **graph_files(tmp_path, helper=helper))
    schema = {"type": "object", "properties": {"about": {"type": "string"}}}
    tools = {"tools": [{"name": "pick", "description": "Pick a color.", "parameters": schema}]}
    executed = a_scene(
        {"send": "pick", "input": tools},
        {"again": True, "input": tools},
        {"execute": {"pick": '{"color": "blue"}'}, "input": tools},
        {"send": "thanks", "input": tools},
        graph=f"{MESSAGES}:helper",
    )
    left = a_scene(
        {"send": "pick", "input": tools},
        {"send": "never mind", "input": tools},
        {"send": "and then", "input": tools},
        graph=f"{MESSAGES}:helper",
        thread="t-2",
    )

    (asked, again, answered, thanked), (_, moved_on, then) = await played(world, executed, left)

    finished = asked["events"][-1]
    pending = finished["outcome"]["pendingToolCallIds"]
    assert (finished["type"], finished["outcome"]["type"], len(pending)) == ("RUN_FINISHED", "success", 2)
    assert again["messages"] == asked["messages"]
    assert [each["role"] for each in answered["messages"]] == [
        *("user", "assistant", "tool", "tool", "tool", "assistant")
    ]
    called = [call["function"]["name"] for call in answered["messages"][1]["toolCalls"]]
    assert sorted(called) == ["core__get_current_time", "pick", "pick"]
    assert answered["messages"][-1]["content"] == "Heard them."
    assert thanked["messages"][-1]["content"] == "Heard thanks."
    results = [request.tool_results for request in world.simulator.requests if request.tool_results]
    assert [str(result["content"]).count("blue") for result in results[0]] == [1, 0, 1]
    for step in (answered, thanked, moved_on, then):
        assert (step.get("failure"), step["events"][-1]["outcome"]["type"]) == (None, "success")
    assert moved_on["messages"][-1]["content"] == "Heard never mind."
    assert then["messages"][-1]["content"] == "Heard and then."
