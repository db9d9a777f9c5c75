"""A conversation's process is stopped or killed between its turns and during one."""

import os
import signal
from pathlib import Path
from typing import Any

from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse
from tests.e2e.office import MAIL, MAILER, office, settings
from tests.e2e.parking import a_parking_world, gone, process_of
from tests.e2e.stories import World, WorldOf, a_request
from tests.e2e.test_a_conversation_keeps_its_process import questions
from tests.e2e.the_bill import bill, wire

BODY: dict[str, Any] = {"graphId": MAILER, "stateKey": "chat-1"}


async def turn(world: World, text: str) -> Any:
    response = await world.http.post("/v1/runs/wait", json=a_request(text, **BODY))
    return response.raise_for_status().json()


async def test_a_process_that_stands_still_between_turns_is_replaced(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await a_parking_world(
        world_of, lambda request: Reply([Text(f"You said: {request.last_text}")]), **settings(tmp_path)
    )
    await turn(world, "one")
    process = process_of(world, "chat-1")
    os.kill(process.pid, signal.SIGSTOP)

    final = await turn(world, "two")

    assert final["content"] == "You said: two"
    assert questions(world.simulator.requests[-1]) == ["one", "two"]
    assert process_of(world, "chat-1") != process
    await gone(process)


MOMENTS = [("request", "kill"), ("text", "kill"), ("mail", "cancel"), ("text", "stop")]
"""When a turn's process fails, and how: before the first byte, within a message, while a call waits."""


async def test_a_process_that_fails_in_a_turn_leaves_nothing_to_the_next(
    world_of: WorldOf, tmp_path: Path
) -> None:
    holds = {"request": Hold(0), "text": Hold(4)}

    def model(request: ApiRequest) -> Reply:
        text = request.last_text.rpartition("\n")[2]
        if text.startswith("mail") and not request.tool_results:
            return Reply([ToolUse(MAIL, {"to": "bob@example.org", "text": text})])
        return Reply([Text(f"You said: {text}")], hold=holds.get(text.split()[0]))

    world = await a_parking_world(world_of, model, **settings(tmp_path))
    await turn(world, "begin")
    for when, how in MOMENTS:
        process, sent = process_of(world, "chat-1"), len(world.simulator.sent)
        holds["request"], holds["text"] = Hold(0), Hold(4)
        question = f"{when} {how}"
        run_id = await world.start(a_request(question, **BODY))
        if when == "request":
            await holds["request"].reached.wait()
            # If the run begins again, nothing holds it.
            del holds["request"]
        else:
            await world.events(run_id, until="text_delta" if when == "text" else "permission_request")

        if how != "cancel":
            os.kill(process.pid, signal.SIGKILL if how == "kill" else signal.SIGSTOP)
        if how != "kill":
            await world.http.post(f"/v1/runs/{run_id}/cancel")
        run = await world.ended(run_id)
        receipts = await world.receipts(run_id)
        billed = {name: fact for name, fact in bill(receipts).items() if name != "unanswered-1"}
        told = wire(world.simulator.sent[sent:])
        following = await turn(world, f"next {question}")

        repeated = question == "request kill"
        error = None if repeated else "agent_unavailable" if how == "kill" else "aborted"
        assert run["final"]["error"] == error, question
        assert billed == told, question
        assert len(receipts) == 1 + repeated, question
        assert following["content"] == f"You said: next {question}"
        # A process that is killed may not have written down its question: then the next one begins with it.
        asked = "\n".join(questions(world.simulator.requests[-1])).split("\n")
        assert asked[0] == "begin", question
        assert [each for each in asked if each.endswith(question)] == [question, f"next {question}"]
        assert len(await world.receipts(following["runId"])) == 1, question
        assert process_of(world, "chat-1") != process
        await gone(process)
    assert office().sent == []
