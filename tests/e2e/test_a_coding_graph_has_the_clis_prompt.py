"""`prompt_preset`: what the CLI then sends, from a workspace and a machine that would add to its prompt."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.executors.claude_agent.options.preview import PRESET_CHARS
from app.simulator.script import Reply, Text
from tests.e2e.stories import WorldOf, a_request
from tests.e2e.workshop import EDITOR, settings, upload
from tests.programs import require

PLANTED = "planted-by-a-test"
REPOSITORY = {
    "CLAUDE.md": PLANTED,
    ".claude/settings.json": json.dumps({"attribution": {"commit": PLANTED}, "autoMemoryEnabled": True}),
    ".git/HEAD": f"ref: refs/heads/{PLANTED}\n",
    ".git/config": f"[core]\nrepositoryformatversion = 0\n[user]\nname = {PLANTED}\n",
    ".git/objects/info/packs": "",
    ".git/refs/heads/other": "",
}


def a_home(directory: Path) -> Path:
    """A home of the server's user, whose own Claude Code and git have settings."""
    (directory / ".claude").mkdir(parents=True)
    (directory / ".claude" / "CLAUDE.md").write_text(PLANTED)
    (directory / ".gitconfig").write_text(f"[user]\nname = {PLANTED}\n")
    return directory


@pytest.mark.parametrize(("model", "turns"), [("claude-sonnet-5-5", 2), ("claude-haiku-4-5", 1)])
async def test_the_prompt_has_nothing_of_the_machine_and_is_the_same_in_each_turn(
    world_of: WorldOf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, turns: int
) -> None:
    """The CLI has one prompt for its newest models, and another for those before."""
    require("bwrap", "socat")
    monkeypatch.setenv("HOME", str(a_home(tmp_path / "home-of-the-machine")))
    world = await world_of(
        lambda _: Reply([Text("hello")]), **settings(tmp_path, "prompt_preset: claude_code")
    )
    files = [upload(path, content) for path, content in REPOSITORY.items()]
    body: dict[str, Any] = a_request("hi", graphId=EDITOR, model=model, stateKey="coding")

    for turn in ({"files": files}, {})[:turns]:
        await world.run({**body, **turn})

    first, *later = world.simulator.requests
    assert len(later) == turns - 1
    assert first.system.startswith("You are Claude Code")
    assert first.system.endswith("\nEdit files.")
    assert len(first.system) < PRESET_CHARS
    for request in (first, *later):
        assert request.body["system"] == first.body["system"]
        sent = json.dumps([request.body["system"], request.body["messages"]])
        for unwanted in (str(tmp_path), PLANTED, "# Memory", "auto memory", "Co-Authored-By", "gitStatus"):
            assert unwanted not in sent, unwanted


async def test_a_preview_says_how_long_the_prompt_may_be(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(lambda _: Reply([]), **settings(tmp_path, "prompt_preset: claude_code"))

    shown = (await world.http.post("/v1/runs/preview", json=a_request(graphId=EDITOR))).json()

    assert shown["systemPrompt"] == "Edit files."
    assert shown["sdkOptions"]["systemPrompt"] == {
        "type": "preset",
        "preset": "claude_code",
        "maxCharacters": PRESET_CHARS,
    }
