"""A run whose calls wait for a person is executed by no process meanwhile, and goes on where it stopped."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import Reply, Responder, Text, ToolUse, in_turn
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, MAILER, office, settings
from tests.e2e.stories import Heard, World, WorldOf, a_request, until
from tests.patience import PATIENCE_S

ARGS = {"to": "bob@example.org", "text": "Hello Bob"}
SOON = {"RUNTALLY_PARK_AFTER_S": 0.05}

parking_agents = pytest.mark.parametrize("agent", [MESSAGES])
"""Those whose runs can be parked."""


def one_mail() -> Responder:
    return in_turn(Reply([ToolUse(MAIL, ARGS)]), Reply([Text("So be it.")]))


async def parked(world: World, **fields: Any) -> tuple[str, dict[str, Any]]:
    """A run that waits in no process, and its request."""
    run_id = await world.start(a_request("mail", graphId=MAILER, **fields))
    events = await world.events(run_id, until="permission_request")
    await waits(world, run_id)
    return run_id, events[-1].data


async def waits(world: World, run_id: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while (await world.http.get(f"/v1/runs/{run_id}")).json()["status"] != "waiting":
            await asyncio.sleep(0.02)


async def decide(world: World, run_id: str, request: dict[str, Any], **decision: Any) -> Any:
    return await world.http.post(f"/v1/runs/{run_id}/permissions/{request['requestId']}", json=decision)


def kinds(events: list[Heard]) -> list[str]:
    return [event.type for event in events]


@parking_agents
async def test_the_answer_lets_it_go_on_and_nothing_is_done_or_paid_twice(
    world_of: WorldOf, tmp_path: Path
) -> None:
    world = await world_of(one_mail(), **settings(tmp_path), **SOON)
    run_id, request = await parked(world)

    await until(lambda: world.services.dispatcher.places.taken == 0)
    before = await world.events(run_id, until="status")
    answer = await decide(world, run_id, request, decision="allow")
    again = await decide(world, run_id, request, decision="allow")
    rest = await world.events(run_id)

    assert (answer.status_code, again.status_code) == (200, 200)
    assert office().sent == [("bob@example.org", "Hello Bob")]
    assert rest[: len(before)] == before
    assert kinds(rest).count("permission_request") == kinds(rest).count("permission_resolved") == 1
    assert kinds(rest).count("tool_call_start") == kinds(rest).count("tool_call_result") == 1
    assert rest[-1].data["finishReason"] == "stop"
    assert len(world.simulator.requests) == len(await world.receipts(run_id)) == 2
