"""Every line of a run names that run and its account, whichever process was started when."""

import asyncio
import logging
from pathlib import Path
from typing import Any

import structlog
from pydantic import BaseModel

from app.simulator.script import ApiRequest, Reply, Text, ToolUse
from runtally.tools.tool import ToolContext, ToolOutput, tool
from tests.e2e.parking import pool_of
from tests.e2e.stories import World, WorldOf, a_client, a_request, until
from tests.graph_files import graph_files
from tests.log_lines import written_log

DIARIST = "claude_agents:diarist"
WRITER = "messages:diarist"
GRAPH = "---\ndescription: Writes a diary.\ntools: [diary__write]\n---\nWrite."
log = structlog.get_logger(__name__)


class Nothing(BaseModel):
    pass


@tool(id="diary__write", description="Write.", effect="state_change", redact=())
async def write(_args: Nothing, context: ToolContext) -> ToolOutput[Nothing]:
    truth = {"true_run": context.run.run_id, "true_account": str(context.run.account_id)}
    log.info("diary.structlog", **truth)
    await asyncio.to_thread(logging.getLogger("diary").warning, "diary.stdlib %s", context.run.run_id)
    return ToolOutput("written", Nothing())


def writes_once(request: ApiRequest) -> Reply:
    if request.tool_results:
        return Reply([Text("done")])
    return Reply([ToolUse(name=next(name for name in request.tool_names if "diary" in name), input={})])


async def in_order(world: World, key: str, bodies: list[dict[str, Any]]) -> list[str]:
    """Run them one after the other; each next one finds a process that is parked or ready."""
    ids = []
    async with a_client(world.url, key) as http:
        for body in bodies:
            final = (await http.post("/v1/runs/wait", json=body)).json()
            assert final["ok"], final
            ids.append(final["runId"])
            await until(lambda: not pool_of(world).is_starting)
    return ids


async def test_no_line_names_another_run(world_of: WorldOf, tmp_path: Path) -> None:
    with written_log() as written:
        world = await world_of(
            writes_once,
            RUNTALLY_TOOLS=__name__,
            RUNTALLY_IDLE_PROCESSES=4,
            **graph_files(tmp_path, diarist=GRAPH),
        )
        scopes = ["runs:write", "runs:read"]
        keys = [await world.services.accounts.create_key(name, scopes) for name in ("one", "two")]
        asked = [
            a_request(graphId=DIARIST, stateKey="diary"),
            a_request("again", graphId=DIARIST, stateKey="diary"),
            a_request(graphId=DIARIST),
        ]
        (_, one), (_, two) = keys
        found = await asyncio.gather(in_order(world, one, asked), in_order(world, two, asked[:1]))
        await in_order(world, one, [a_request(graphId=WRITER)])
        account_of = {
            run_id: str(record.account_id)
            for (record, _), ids in zip(keys, found, strict=True)
            for run_id in ids
        }

    own = written.of("diary.structlog")
    assert len(own) == 5
    assert [line for line in own if line["run_id"] != line["true_run"]] == []
    assert [line for line in own if line["account_id"] != line["true_account"]] == []
    foreign = [line for line in written.lines() if line["event"].startswith("diary.stdlib")]
    assert len(foreign) == 5
    assert all(line["event"].endswith(line["run_id"]) for line in foreign)

    named = [line for line in written.lines() if line.get("run_id") in account_of]
    assert {line["account_id"] for line in named} == set(account_of.values())
    assert [line for line in named if line["account_id"] != account_of[line["run_id"]]] == []
    ended = written.of("run.ended")
    assert sorted(line["run_id"] for line in ended if line["run_id"] in account_of) == sorted(account_of)
    assert {(line["status"], line["messages"], line["tokens_out"]) for line in ended} == {
        ("succeeded", 2, 40)
    }
    requests = [line for line in written.of("http.request") if line["route"] == "/v1/runs/wait"]
    assert sorted(line["run_id"] for line in requests) == sorted(line["run_id"] for line in ended)
    assert {line["level"] for line in written.lines()} <= {"info", "warning"}
