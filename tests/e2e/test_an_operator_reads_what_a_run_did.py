"""An operator reads what a run did: prompts as the model got them, capabilities, decisions."""

import json
from pathlib import Path
from typing import Any

import httpx

from app.simulator.script import Hold, Reply, Text, ToolUse, in_turn
from tests.e2e import office as mail_office
from tests.e2e.agents import MESSAGES, every_agent, without_cli
from tests.e2e.office import MAIL, MAILER
from tests.e2e.stories import CLOCK, World, WorldOf, a_request
from tests.e2e.workshop import calling
from tests.patience import until_shown

TO_BOB = ToolUse(MAIL, {"to": "bob@example.org", "text": "Hello Bob"})
TO_EVE = ToolUse(MAIL, {"to": "eve@example.org", "text": "Hello Eve"})


async def evidence(http: httpx.AsyncClient, run_id: str, *, limit: int = 200) -> list[dict[str, Any]]:
    """All of a run, read in pages."""
    found: list[dict[str, Any]] = []
    cursor = "0"
    while True:
        path = f"/v1/runs/{run_id}/evidence"
        page = (await http.get(path, params={"limit": limit, "cursor": cursor})).raise_for_status().json()
        found += page["items"]
        if page["nextCursor"] is None:
            return found
        cursor = page["nextCursor"]


def of_type(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each["content"] for each in found if each["type"] == kind]


@every_agent
async def test_prompts_and_decisions_are_those_of_the_wire(
    world_of: WorldOf, tmp_path: Path, agent: str
) -> None:
    rule = {"tool": "office__send_mail", "when": "args.to.startsWith('eve@')", "do": "deny"}
    world = await world_of(
        calling(TO_EVE, TO_BOB), **mail_office.settings(tmp_path, rules=json.dumps([rule]))
    )
    run_id = await world.start(a_request("Write to them", graphId=MAILER))
    asked = (await world.events(run_id, until="permission_request"))[-1].data
    path = f"/v1/runs/{run_id}/permissions/{asked['requestId']}"
    changed = {"to": "bob@example.org", "text": "Hello again"}
    (await world.http.post(path, json={"decision": "allow", "args": changed})).raise_for_status()
    await world.ended(run_id)

    found = await evidence(world.http, run_id, limit=2)
    prompts, decisions = of_type(found, "prompt_rendered"), of_type(found, "call_decided")
    sent = world.simulator.requests
    assert [each["position"] for each in found] == list(range(1, len(found) + 1))
    # The first prompt is whole, the others have what is new: what was called, with what result.
    assert len(prompts) == len(sent) == 3
    assert prompts[0]["system"] == sent[0].body["system"]
    assert prompts[0]["tools"] == sent[0].body["tools"]
    assert "tools" not in prompts[1]
    assert [len(each["messages"]) for each in prompts[1:]] == [2, 2]
    assert "Sent to bob@example.org." in json.dumps(prompts[2]["messages"])
    assert [(each["decision"], each["args"]["to"]) for each in decisions] == [
        ("deny", "eve@example.org"),
        ("allow", "bob@example.org"),
    ]
    assert decisions[0]["rule"] == rule
    assert decisions[1]["requestId"] == asked["requestId"]
    assert decisions[1]["args"] == changed
    announced = of_type(found, "agent_announced")
    assert len(announced) == (0 if agent == MESSAGES else 1)
    if announced:
        assert announced[0]["tools"] == [MAIL]
        assert str(tmp_path) not in json.dumps(announced)


@without_cli
async def test_it_is_read_with_its_own_scope_and_deleted_with_the_run(world_of: WorldOf) -> None:
    world = await world_of(calling(ToolUse(CLOCK, {})))
    run_id = await world.start(a_request("secret words"))
    await world.ended(run_id)

    statuses = [await status_of(world, run_id, scopes) for scopes in (["runs:audit"], ["runs:read", "admin"])]
    kept = await evidence(world.http, run_id)
    (await world.http.delete(f"/v1/runs/{run_id}")).raise_for_status()
    after = await world.http.get(f"/v1/runs/{run_id}/evidence")

    assert statuses == [200, 403]
    assert "secret words" in json.dumps(kept)
    assert after.status_code == 410
    assert (await world.http.get("/v1/runs/unknown/evidence")).status_code == 404


@without_cli
async def test_an_operator_may_keep_none(world_of: WorldOf) -> None:
    world = await world_of(calling(ToolUse(CLOCK, {})), RUNTALLY_EVIDENCE=False)
    run_id = await world.start(a_request())
    await world.ended(run_id)

    assert await evidence(world.http, run_id) == []


@without_cli
async def test_what_a_run_did_is_stored_before_it_ends(world_of: WorldOf) -> None:
    """It is read from the database, and so is left by a server that is killed."""
    hold = Hold(index=1)
    world = await world_of(in_turn(Reply([ToolUse(CLOCK, {})]), Reply([Text("So far.")], hold=hold)))
    run_id = await world.start(a_request())
    await hold.reached.wait()

    def has_decision(page: dict[str, Any]) -> bool:
        return bool(of_type(page["items"], "call_decided"))

    found = await until_shown(world.http, f"/v1/runs/{run_id}/evidence", has_decision)
    hold.until.set()
    await world.ended(run_id)

    assert of_type(found["items"], "call_decided")[0]["decision"] == "allow"
    assert of_type(found["items"], "prompt_rendered")


async def status_of(world: World, run_id: str, scopes: list[str]) -> int:
    _, secret = await world.services.accounts.create_key("default", scopes)
    headers = {"Authorization": f"Bearer {secret}"}
    return (await world.http.get(f"/v1/runs/{run_id}/evidence", headers=headers)).status_code
