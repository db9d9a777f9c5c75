"""With RUNTALLY_OBJECTS what is large is outside the database, and clients see no difference."""

import base64
import os
from pathlib import Path

import pytest

from app.simulator.script import Reply, Text
from tests.e2e.agents import every_agent, without_cli
from tests.e2e.stories import OpenWorld
from tests.e2e.test_attachments_reach_the_model import attached, turn
from tests.integration.object_storage import BUCKET, loopback_s3
from tests.integration.statements import scalar

LARGE = base64.b64encode(b"%PDF-1.7\n" + os.urandom(89_991)).decode()
PDF = {"type": "document", "mediaType": "application/pdf", "data": LARGE, "title": "Offer"}


def files_below(directory: Path) -> list[int]:
    return [path.stat().st_size for path in directory.rglob("*") if path.is_file()]


@without_cli
async def test_an_attachment_is_in_each_turn_of_a_conversation(open_world: OpenWorld, tmp_path: Path) -> None:
    outside = tmp_path / "objects"
    settings = {
        "RUNTALLY_OBJECTS": f"file://{outside}",
        "RUNTALLY_OBJECTS_KEY": "k" * 32,
        "RUNTALLY_IDLE_PROCESSES": 0,
    }
    async with open_world(lambda _: Reply([Text("Seen")]), **settings) as world:
        first = await turn(world, [{"type": "text", "text": "An offer"}, PDF])
        second = await turn(world, "and again?")
        history = (await world.http.get("/v1/sessions/chat")).json()["messages"]
        inside = [
            await scalar(world.services.database, f"SELECT max(octet_length({column}::text)) FROM {table}")  # noqa: S608
            for table, column in (("session_entries", "entry"), ("runs", "request"))
        ]

    assert [first.get("content", first), second["content"]] == ["Seen", "Seen"]
    one, two = (attached(request) for request in world.simulator.requests)
    assert one[0]["source"]["data"] == LARGE
    assert two == one
    assert max(inside) < 20_000
    # Once, with what the cipher adds.
    assert files_below(outside) == [len(LARGE) + 28]
    assert [each["size"] for message in history for each in message.get("attachments", ())] == [90_000]


@every_agent
async def test_a_run_says_which_way_its_contents_are_away(
    open_world: OpenWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    with loopback_s3() as s3:
        for name, value in s3.environment.items():
            monkeypatch.setenv(name, value)
        async with open_world(lambda _: Reply([Text("Seen")]), RUNTALLY_OBJECTS=f"s3://{BUCKET}") as world:
            await turn(world, [{"type": "text", "text": "An offer"}, PDF])
            s3.faults.append("forbidden")
            away = await turn(world, "and?")
            s3.lose()
            lost = await turn(world, "and?")

    assert [away["error"], lost["error"]] == ["database_unavailable", "not_found"]
