import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from httpx_sse import aconnect_sse

from app.simulator.script import Hold, Reply, Text, ToolUse, in_turn
from tests.e2e.agents import without_cli
from tests.e2e.stories import (
    CLOCK,
    World,
    WorldOf,
    a_client,
    a_request,
    cli_processes,
    contents_below,
    until,
)
from tests.e2e.workshop import EDITOR, answered, bash, calling, files, read, results, settings, upload
from tests.patience import PATIENCE_S
from tests.programs import require


@pytest.fixture(autouse=True)
def _programs() -> None:
    require("bwrap", "socat")


async def test_an_agent_edits_a_file_and_what_it_leaves_can_be_downloaded(
    world_of: WorldOf, tmp_path: Path
) -> None:
    model = calling(
        ToolUse("Read", {"file_path": "/workspace/notes/a.txt"}),
        ToolUse("Edit", {"file_path": "/workspace/notes/a.txt", "old_string": "old", "new_string": "new"}),
        ToolUse("Write", {"file_path": "/workspace/d/pä ge.html", "content": "<b>Report</b>"}),
        ToolUse("Glob", {"pattern": "**/*.txt"}),
        ToolUse("Grep", {"pattern": "new", "path": "/workspace"}),
        bash("cat notes/a.txt 'd/pä ge.html' | tr a-z A-Z > loud.txt; rm gone.txt; cat loud.txt"),
        # A tool of the server's in the same run.
        ToolUse(CLOCK),
    )
    world = await world_of(model, **settings(tmp_path, "tools: [core__get_current_time]"))
    uploads = [upload("notes/a.txt", "the old text\n"), upload("same.txt", "same"), upload("gone.txt", "x")]

    events = await world.run(a_request("go", graphId=EDITOR, files=uploads, stateKey="s"))

    assert events[-1].data["finishReason"] == "stop"
    assert [error for _, error in results(events)] == [False] * 7
    offered = set(world.simulator.requests[0].tool_names)
    assert offered == {"Read", "Write", "Edit", "Glob", "Grep", "Bash", CLOCK}
    assert [shown for shown, _ in results(events)[:6]] == [{}] * 6
    args = [event.data["args"] for event in events if event.type == "tool_call_start"]
    assert [call.get("file_path") for call in args[:3]] == ["notes/a.txt", "notes/a.txt", "d/pä ge.html"]
    assert args[4]["path"] == "."
    assert "THE NEW TEXT" in answered(world)[5]
    assert str(tmp_path) not in json.dumps([event.data for event in events])
    assert str(tmp_path) not in json.dumps(world.simulator.requests[-1].body)
    messages = (await world.http.get("/v1/sessions/s")).json()["messages"]
    calls = [message["toolName"] for message in messages if message["type"] == "tool_call"]
    assert calls == ["Read", "Edit", "Write", "Glob", "Grep", "Bash", "core__get_current_time"]
    assert str(tmp_path) not in json.dumps(messages)
    run_id = events[0].data["runId"]
    await _is_never_shown(world, run_id)
    kept = await files(world, run_id)
    assert {path: (item["origin"], item["mediaType"]) for path, item in kept.items()} == {
        "d/pä ge.html": ("created", "text/html"),
        "loud.txt": ("created", "text/plain"),
        "notes/a.txt": ("changed", "text/plain"),
        "same.txt": ("uploaded", "text/plain"),
    }
    text = await read(world, run_id, "notes/a.txt")
    assert text == b"the new text\n"
    assert kept["notes/a.txt"]["sha256"] == hashlib.sha256(text).hexdigest()
    assert kept["notes/a.txt"]["bytes"] == len(text)
    await until(lambda: not cli_processes())
    assert not any(b"THE NEW TEXT" in content for content in contents_below(tmp_path / "data"))


async def _is_never_shown(world: World, run_id: str) -> None:
    """A page is saved by a browser."""
    response = await world.http.get(f"/v1/runs/{run_id}/files/d/p%C3%A4%20ge.html")

    assert response.content == b"<b>Report</b>"
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["content-disposition"] == "attachment; filename*=UTF-8''p%C3%A4%20ge.html"
    assert response.headers["x-content-type-options"] == "nosniff"


async def test_mounts_are_copied_and_stay_as_they_are(world_of: WorldOf, tmp_path: Path) -> None:
    source = tmp_path / "project"
    (source / "src").mkdir(parents=True)
    (source / "src" / "main.py").write_text("print(1)\n")
    (source / "src" / "skip.pyc").write_text("no")
    model = calling(bash("cat p/src/main.py; ls p/src; echo 'print(2)' > p/src/main.py"))
    head = (
        "workspace:",
        "  mounts:",
        f'    - {{host_path: "{source}", mount_path: p, exclude_glob: ["*.pyc"]}}',
    )
    world = await world_of(model, **settings(tmp_path, *head, RUNTALLY_ALLOWED_HOST_ROOTS=str(tmp_path)))

    events = await world.run(a_request("go", graphId=EDITOR))

    (answer,) = answered(world)
    assert "print(1)" in answer
    assert "skip.pyc" not in answer
    assert (source / "src" / "main.py").read_text() == "print(1)\n"
    run_id = events[0].data["runId"]
    assert {p: f["origin"] for p, f in (await files(world, run_id)).items()} == {"p/src/main.py": "changed"}
    assert await read(world, run_id, "p/src/main.py") == b"print(2)\n"


async def test_files_are_there_at_once_and_until_the_workspace_expires(
    world_of: WorldOf, tmp_path: Path, database_url: str
) -> None:
    hold = Hold(index=1)
    world = await world_of(in_turn(Reply([Text("done")], hold=hold)), **settings(tmp_path))
    body = a_request("go", graphId=EDITOR, runId="r1", files=[upload("a.txt", "content")])
    await world.start(body)
    await hold.reached.wait()
    at_once = (await world.http.get("/v1/runs/r1/files")).json()
    hold.until.set()
    await world.ended("r1")
    listing = (await world.http.get("/v1/runs/r1/files")).json()
    assert [item["path"] for item in at_once["items"]] == ["a.txt"]
    assert (at_once["complete"], at_once["truncated"], at_once["expiresAt"]) == (False, False, None)
    assert (listing["complete"], listing["truncated"]) == (True, False)
    assert listing["expiresAt"] is not None
    again = await world.http.post("/v1/runs/wait", json=body)
    other = await world.http.post("/v1/runs", json={**body, "files": [upload("a.txt", "CONTENT")]})
    assert again.json()["content"] == "done"
    assert (other.status_code, other.json()["code"]) == (409, "run_id_taken")

    for path in ("b.txt", "../a.txt", "%2e%2e/a.txt", "..%2f..%2fetc/passwd", "/a.txt", "a.txt/", "a%00"):
        response = await world.http.get(f"/v1/runs/r1/files/{path}")
        assert (response.status_code, response.json()["code"]) in {
            (404, "file_not_found"),
            (404, "not_found"),
        }, path
    _, key = await world.services.accounts.create_key("stranger", ["runs:write", "runs:read"])
    async with a_client(world.url, key) as stranger:
        for path in ("", "/a.txt"):
            response = await stranger.get(f"/v1/runs/r1/files{path}")
            assert (response.status_code, response.json()["code"]) == (404, "run_not_found")

    connection = await asyncpg.connect(database_url)
    # Nothing of the files is in the stored request.
    assert "a.txt" not in await connection.fetchval("SELECT request::text FROM runs")
    await connection.execute("UPDATE workspaces SET expires_at = now()")
    for path in ("", "/a.txt"):
        response = await world.http.get(f"/v1/runs/r1/files{path}")
        assert (response.status_code, response.json()["code"]) == (410, "files_expired")
    await world.services.workspaces.delete_expired_files()
    assert await connection.fetchval("SELECT count(*) FROM workspace_files") == 0
    await connection.close()
    assert (await world.http.get("/v1/runs/r1/files")).status_code == 410


@without_cli
async def test_a_run_without_a_workspace_has_no_files(world_of: WorldOf) -> None:
    world = await world_of(calling())
    await world.run(a_request(runId="r1"))

    listing = (await world.http.get("/v1/runs/r1/files")).json()

    assert listing == {"items": [], "complete": False, "truncated": False, "expiresAt": None}
    assert (await world.http.get("/v1/runs/r1/files/a")).json()["code"] == "file_not_found"


async def test_a_person_is_asked_about_paths_and_commands_and_may_change_them(
    world_of: WorldOf, tmp_path: Path
) -> None:
    write = ToolUse("Write", {"file_path": "/workspace/a", "content": "1"})
    model = calling(write, write, bash("echo one > c"))
    world = await world_of(model, **settings(tmp_path, "approve: [state_change, Bash]"))
    run_id = await world.start(a_request("go", graphId=EDITOR))
    decisions = [
        ("a", {"file_path": "b", "content": "2"}),
        ("a", {"file_path": "/etc/b", "content": "2"}),
        ("echo one > c", {"command": "echo two > c"}),
    ]

    for number, (asked, changed) in enumerate(decisions):
        request = await _asked(world, run_id, number)
        assert asked in request["args"].values()
        decision = {"decision": "allow", "args": changed}
        decided = f"/v1/runs/{run_id}/permissions/{request['requestId']}"
        assert (await world.http.post(decided, json=decision)).is_success

    await world.ended(run_id)
    assert list(await files(world, run_id)) == ["b", "c"]
    assert [await read(world, run_id, path) for path in ("b", "c")] == [b"2", b"two\n"]


async def test_a_run_that_only_plans_changes_no_file(world_of: WorldOf, tmp_path: Path) -> None:
    calls = [
        ToolUse("Read", {"file_path": "/workspace/a"}),
        ToolUse("Write", {"file_path": "/workspace/b", "content": "x"}),
        bash("touch c"),
    ]
    world = await world_of(calling(*calls), **settings(tmp_path, "permission_mode: plan"))

    events = await world.run(a_request("go", graphId=EDITOR, files=[upload("a", "x")]))

    assert [error for _, error in results(events)] == [False, True, True]
    assert list(await files(world, events[0].data["runId"])) == ["a"]


async def _asked(world: World, run_id: str, number: int) -> dict[str, Any]:
    """What a person is asked for the so-manieth time."""
    found: list[dict[str, Any]] = []
    async with (
        asyncio.timeout(PATIENCE_S),
        aconnect_sse(world.http, "GET", f"/v1/runs/{run_id}/events") as source,
    ):
        async for event in source.aiter_sse():
            if event.event == "permission_request":
                found.append(event.json())
            if len(found) > number:
                break
    return found[number]
