"""An operator writes rules over arguments; what a model asks for is allowed, asked about, or denied."""

import json
from pathlib import Path
from typing import Any

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.e2e import office as mail_office
from tests.e2e import workshop
from tests.e2e.agents import CLAUDE, every_agent, without_cli
from tests.e2e.office import MAIL, MAILER, office
from tests.e2e.stories import CLOCK, Heard, WorldOf, a_request
from tests.e2e.workshop import EDITOR, answered, bash, calling, files, results, upload
from tests.graph_files import graph_files
from tests.programs import require

TO_BOB = ToolUse(MAIL, {"to": "bob@example.org", "text": "Hello Bob"})
TO_EVE = ToolUse(MAIL, {"to": "eve@example.org", "text": "Hello Eve"})


def mailer(directory: Path, *rules: dict[str, Any], **head: Any) -> dict[str, Any]:
    return mail_office.settings(directory, rules=json.dumps(rules), **head)


def editor(directory: Path, *head: str, tools: str = workshop.ALL) -> dict[str, Any]:
    require("bwrap", "socat")
    return workshop.settings(directory, *head, tools=tools)


@without_cli
async def test_a_mail_is_sent_asked_about_or_denied_by_its_address(world_of: WorldOf, tmp_path: Path) -> None:
    rules = [
        {"tool": "office__*", "when": "args.to.startsWith('eve@')", "do": "deny", "message": "Not to Eve."},
        {"tool": "external_side_effect", "when": "args.text.size() < 10 && run.attempt == 0", "do": "allow"},
    ]
    long = ToolUse(MAIL, {"to": "bob@example.org", "text": "A longer text"})
    world = await world_of(calling(TO_EVE, TO_BOB, long), **mailer(tmp_path, *rules))
    run_id = await world.start(a_request(graphId=MAILER))
    request = (await world.events(run_id, until="permission_request"))[-1].data
    await world.decide(run_id, request, decision="allow")
    events = await world.events(run_id)

    assert office().sent == [("bob@example.org", "Hello Bob"), ("bob@example.org", "A longer text")]
    assert [event.type for event in events].count("permission_request") == 1
    assert [error for _, error in results(events)] == [True, False, False]
    assert "Not to Eve." in answered(world)[0]
    assert events[-1].data["finishReason"] == "stop"


@every_agent
async def test_a_denied_call_may_end_the_run(world_of: WorldOf, tmp_path: Path, agent: str) -> None:
    rule = {"tool": "office__send_mail", "when": "args.to != 'bob@example.org'", "do": "deny", "stop": True}
    world = await world_of(calling(TO_EVE, TO_BOB), **mailer(tmp_path, rule, approve="[]"))
    events = await world.run(a_request(graphId=MAILER, stateKey="chat"))

    assert ended(events) == ("run_stopped", ["office__send_mail"], "aborted", "aborted")
    assert office().sent == []
    assert len(world.simulator.requests) == 1
    if agent == CLAUDE:
        # See test_a_turn_is_interrupted.
        return
    # The conversation goes on.
    world.simulator.responder = in_turn(Reply([Text("Hello again")]))
    assert (await world.run(a_request(graphId=MAILER, stateKey="chat")))[-1].data["finishReason"] == "stop"


@without_cli
async def test_a_person_who_denies_a_call_may_end_the_run(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(calling(TO_EVE, TO_BOB), **mailer(tmp_path))
    run_id = await world.start(a_request(graphId=MAILER))
    request = (await world.events(run_id, until="permission_request"))[-1].data
    refused = await world.decide(run_id, request, decision="allow", stop=True)
    await world.decide(run_id, request, decision="deny", stop=True, message="Enough.")
    events = await world.events(run_id)

    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "stop")
    assert ended(events) == ("run_stopped", ["office__send_mail"], "aborted", "aborted")
    assert office().sent == []


async def test_file_edits_are_accepted_and_commands_are_still_asked_about(
    world_of: WorldOf, tmp_path: Path
) -> None:
    calls = [
        ToolUse("Write", {"file_path": "/workspace/a", "content": "1"}),
        ToolUse("Edit", {"file_path": "/workspace/a", "old_string": "1", "new_string": "2"}),
        bash("touch b"),
    ]
    head = ("approve: [state_change]", "permission_modes: [acceptEdits]")
    world = await world_of(calling(*calls), **editor(tmp_path, *head))
    run_id = await world.start(a_request("go", graphId=EDITOR))
    asked = (await world.events(run_id, until="permission_request"))[-1].data
    # The change applies to the next call: this one waits on.
    await world.http.patch(f"/v1/runs/{run_id}", json={"permissionMode": "acceptEdits"})
    await world.decide(run_id, asked, decision="allow")
    command = await world.first(run_id, "permission_request", after=asked)
    await world.decide(run_id, command, decision="deny")
    events = await world.events(run_id)

    assert [asked["toolName"], command["toolName"]] == ["Write", "Bash"]
    assert [error for _, error in results(events)] == [False, False, True]
    assert list(await files(world, run_id)) == ["a"]


async def test_commands_and_paths_are_denied_by_rules_however_they_are_written(
    world_of: WorldOf, tmp_path: Path
) -> None:
    rules = [
        {"tool": "Bash", "when": "args.command.matches('(^|[^a-z])rm ')", "do": "deny"},
        {"tool": "*", "when": "has(args.file_path) && args.file_path.startsWith('keys/')", "do": "deny"},
    ]
    hidden = (
        *("/workspace/keys/a", "keys/a", "./keys/a", "/workspace//keys/./a", "x/../keys/a", " keys/a"),
        *("/workspace/keys/a ", "../workspace/keys/a", "keys\u2215a/../../keys/a"),
    )
    calls = [*(ToolUse("Read", {"file_path": path}) for path in hidden), bash("ls; rm keys/a"), bash("ls")]
    world = await world_of(
        calling(*calls),
        **editor(tmp_path, f"rules: {json.dumps(rules)}", "permission_mode: bypassPermissions"),
    )
    events = await world.run(a_request("go", graphId=EDITOR, files=[upload("keys/a", "TOPSECRET")]))

    assert [error for _, error in results(events)] == [True] * 10 + [False]
    assert "TOPSECRET" not in json.dumps(world.simulator.requests[-1].body)
    assert list(await files(world, events[0].data["runId"])) == ["keys/a"]


async def test_rules_are_about_subagents_and_about_their_calls(world_of: WorldOf, tmp_path: Path) -> None:
    def model(request: Any) -> Reply:
        if "You are the helper" in request.system:
            return Reply([ToolUse(CLOCK)] if len(request.messages) == 1 else [Text("I could not look.")])
        work = {"description": "x", "prompt": "time?", "subagent_type": "helper"}
        calls = [ToolUse("Agent", work), ToolUse("Agent", {**work, "prompt": "everything"})]
        made = (len(request.messages) - 1) // 2
        return Reply([calls[made]] if made < len(calls) else [Text("done")])

    rules = [
        {"tool": "core__*", "do": "deny", "message": "No clock here."},
        {"tool": "Agent", "when": "args.prompt == 'everything'", "do": "deny", "message": "Less work."},
    ]
    agents = (
        "agents: {helper: {description: d, prompt: You are the helper., tools: [core__get_current_time]}}"
    )
    head = f"description: d\ntools: [core__get_current_time]\nrules: {json.dumps(rules)}"
    world = await world_of(model, **graph_files(tmp_path, lead=f"---\n{head}\n{agents}\n---\nYou lead.\n"))
    events = await world.run(a_request("go", graphId="claude_agents:lead"))

    told = answered(world)
    assert any("No clock here." in text for text in told)
    assert any("Less work." in text for text in told)
    assert [error for _, error in results(events)] == [True, False, True]


@without_cli
async def test_what_a_hostile_model_sends_is_denied_where_a_rule_has_no_answer(
    world_of: WorldOf, tmp_path: Path
) -> None:
    rules = [
        {"tool": "*", "when": "args.text.contains('x') && args.text.split('').size() > 3", "do": "allow"},
        {"tool": "*", "do": "allow"},
    ]
    texts = ["y" * 5_000_000, "x" * 1_000_000, "xy"]
    calls = [ToolUse(MAIL, {"to": "bob@example.org", "text": text}) for text in texts]
    world = await world_of(calling(*calls), **mailer(tmp_path, *rules))
    events = await world.run(a_request(graphId=MAILER))

    assert [error for _, error in results(events)] == [True, False, False]
    assert [len(text) for _, text in office().sent] == [1_000_000, 2]
    assert "could not be decided" in answered(world)[0]


def ended(events: list[Heard]) -> tuple[Any, ...]:
    (warning,) = [event.data for event in events if event.type == "warning"]
    error, done = (event.data for event in events[-2:])
    return warning["code"], warning["names"], error["error"], done["finishReason"]
