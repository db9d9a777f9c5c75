from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.simulator.script import Hold, Reply, Responder, Text, ToolUse, in_turn
from tests.e2e.agents import MESSAGES, without_cli
from tests.e2e.office import MAIL, MAILER, office, settings
from tests.e2e.stories import Heard, World, WorldOf, a_request, a_world

ARGS = {"to": "bob@example.org", "text": "Hello Bob"}


def one_mail(hold: Hold | None = None) -> Responder:
    return in_turn(Reply([ToolUse(MAIL, ARGS)]), Reply([Text("So be it.")], hold=hold))


@without_cli
async def test_a_call_waits_until_a_person_allows_it(world_of: WorldOf, tmp_path: Path) -> None:
    hold = Hold(index=0)
    world = await world_of(one_mail(hold), **settings(tmp_path))
    run_id, events, request = await asked(world)

    assert office().sent == []
    assert {name: request[name] for name in ("toolName", "args")} == {
        "toolName": "office__send_mail",
        "args": ARGS,
    }
    assert request["expiresAt"] > datetime.now(UTC).isoformat().replace("+00:00", "Z")
    answer = await world.decide(run_id, request, decision="allow")
    again = await world.decide(run_id, request, decision="allow")
    other = await world.decide(run_id, request, decision="deny")
    hold.until.set()
    rest = await world.events(run_id)

    assert (answer.status_code, again.status_code) == (200, 200)
    assert other.json()["code"] == "permission_decided"
    assert office().sent == [("bob@example.org", "Hello Bob")]
    kinds = [event.type for event in rest]
    assert kinds.index("tool_call_start") < kinds.index("permission_request")
    assert kinds.index("permission_resolved") < kinds.index("tool_call_result")
    assert events[-1].id == kinds.index("permission_request") + 1


@without_cli
async def test_arguments_that_are_wrong_bother_nobody(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(
        in_turn(Reply([ToolUse(MAIL, {"to": "nobody"})]), Reply([Text("I see.")])), **settings(tmp_path)
    )

    events = await world.run(a_request(graphId=MAILER))

    assert "permission_request" not in [event.type for event in events]
    assert [event.data["result"] for event in events if event.type == "tool_call_result"] == [
        {"error": "invalid_args"}
    ]


@pytest.mark.parametrize(
    ("agent", "mode", "sent"),
    # With the CLI: see test_a_conversation_keeps_its_process and test_rules_decide_about_calls.
    [(MESSAGES, "plan", 0), (MESSAGES, "dontAsk", 0), (MESSAGES, "bypassPermissions", 1)],
)
async def test_a_running_run_is_given_more_or_less_freedom(
    world_of: WorldOf, tmp_path: Path, mode: str, sent: int
) -> None:
    """The first mail waits; the mode changes meanwhile; nobody is asked about the second."""
    replies = in_turn(Reply([ToolUse(MAIL, ARGS)]), Reply([ToolUse(MAIL, ARGS)]), Reply([Text("Done.")]))
    world = await world_of(replies, **settings(tmp_path))
    run_id, _, request = await asked(world)

    changed = await world.http.patch(f"/v1/runs/{run_id}", json={"permissionMode": mode})
    refused = await world.http.patch(f"/v1/runs/{run_id}", json={"permissionMode": "acceptEdits"})
    await world.decide(run_id, request, decision="deny")
    events = await world.events(run_id)

    assert changed.json() == {"runId": run_id, "permissionMode": mode}
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "permissionMode"
    assert len(office().sent) == sent
    assert [event.type for event in events].count("permission_request") == 1


@without_cli
async def test_a_tool_that_fails_to_check_a_decision_ends_no_run(
    world_of: WorldOf, tmp_path: Path, database_url: str, redis_url: str
) -> None:
    """Also when the decision comes by way of another process, and for the runs beside it."""
    replies = [Reply([ToolUse(MAIL, ARGS)]), Reply([ToolUse(MAIL, ARGS)]), Reply([Text("Sent.")])]
    script = in_turn(*replies, Reply([Text("Sent.")]))
    world = await world_of(script, REDIS_URL=redis_url, **settings(tmp_path))
    neighbour, _, waiting = await asked(world)
    run_id, _, request = await asked(world)
    elsewhere = {"to": "bob@elsewhere.example", "text": "x"}

    async with a_world(tmp_path / "other", database_url, in_turn(), REDIS_URL=redis_url) as other:
        remote = await other.decide(run_id, request, decision="allow", args=elsewhere)
        local = await world.decide(run_id, request, decision="allow", args=elsewhere)
        good = await other.decide(run_id, request, decision="allow")
        beside = await other.decide(neighbour, waiting, decision="allow")
    events = [await world.events(each) for each in (run_id, neighbour)]

    for refused in (remote, local):
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "args")
    assert (good.status_code, beside.status_code) == (200, 200)
    assert [heard[-1].data["finishReason"] for heard in events] == ["stop", "stop"]
    assert office().sent == [("bob@example.org", "Hello Bob")] * 2


async def asked(world: World) -> tuple[str, list[Heard], dict[str, Any]]:
    """Start a run and hear it until a person is asked."""
    run_id = await world.start(a_request("Write to Bob", graphId=MAILER))
    events = await world.events(run_id, until="permission_request")
    return run_id, events, events[-1].data
