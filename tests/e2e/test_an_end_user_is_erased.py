"""What was said by and to an end user is found nowhere after the erasure, and no sum has changed."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app.billing.chain.verification import verify
from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse
from app.simulator.server import Simulator
from tests.batches import a_line, created, ended
from tests.e2e.agents import MESSAGES, every_agent_at_length
from tests.e2e.office import MAIL, MAILER, settings
from tests.e2e.searching import in_files, in_relay, in_tables, written_in
from tests.e2e.servers import a_server
from tests.e2e.stories import ASSISTANT, CLOCK, World, WorldOf, a_request
from tests.integration.statements import rows
from tests.log_lines import written_log
from tests.patience import PATIENCE_S, until_shown

ERIN = "erin%2F/../ö \"'\\ @example.org?a#b"
SAID, ANSWER, ARGS, ATTACHED, KEPT = (
    f"{bird}4711" for bird in ("heron", "bittern", "egret", "ibis", "stork")
)
TITLE, PLANNED, LISTED, WAITS, FOLLOWED = (
    f"{bird}0815" for bird in ("crane", "avocet", "godwit", "curlew", "knot")
)
WORDS = (ERIN, SAID, ANSWER, ARGS, ATTACHED, KEPT, TITLE, PLANNED, LISTED, WAITS, FOLLOWED)
OF_OTHERS = "sparrow2323"
HOOK = {
    "url": "https://hook.invalid/",
    "events": ["run.completed", "run.failed", "approval.requested", "receipt.created", "budget.reached"],
}
BUDGET = {"scope": "endUser", "window": "total", "tokens": 1, "mode": "soft"}


def model(request: ApiRequest) -> Reply:
    if WAITS in request.last_text and not request.tool_results:
        return Reply([ToolUse(MAIL, {"to": "bob@example.org", "text": WAITS})])
    if SAID in request.last_text and not request.tool_results:
        return Reply([Text(ANSWER), ToolUse(CLOCK, {"timezone": ARGS})])
    return Reply([Text("Chirp." if OF_OTHERS in request.last_text else f"{ANSWER} {request.last_text}")])


def of_erin(text: str, **fields: Any) -> dict[str, Any]:
    return a_request(text, endUser=ERIN, **fields)


async def erased(world: World, end_user: str) -> dict[str, Any]:
    """The erasure of an end user, once it has ended."""
    # A client takes two dots for the directory above.
    path = quote(end_user, safe="").replace(".", "%2E")
    answer = await world.http.delete(f"/v1/end-users/{path}")
    assert answer.status_code == 202, answer.text
    job: dict[str, Any] = await until_shown(
        world.http, answer.headers["location"], lambda job: job["status"] == "completed"
    )
    assert job["jobId"] == answer.json()["jobId"]
    return job


async def sums(world: World) -> list[Any]:
    """Receipts and sums of usage without the names of end users, and what was spent."""
    statements = (
        "SELECT to_jsonb(r) - 'end_user' FROM charge_receipts AS r ORDER BY id",
        "SELECT to_jsonb(r) FROM usage_rollups AS r ORDER BY r",
        "SELECT to_jsonb(r) - 'value' AS sums FROM labelled_rollups AS r ORDER BY sums",
        "SELECT spent, spent_by_month FROM credit_accounts",
    )
    return [list(map(tuple, await rows(world.services.database, statement))) for statement in statements]


async def files_are_deleted(world: World, directory: Path) -> None:
    """Wait until no file has a word: a parked process ends within a second, the journal is renewed."""
    async with asyncio.timeout(PATIENCE_S):
        while in_files(directory, WORDS):
            # What a process does every 15 seconds.
            world.services.delivery.queue.recover()
            await asyncio.sleep(0.05)


async def say_everything(world: World) -> None:
    """All ways of which the words may be kept: the waiting run, the batch and the schedule go on."""
    attached = {"type": "document", "text": f"{ATTACHED} notes", "title": TITLE}
    content = [{"type": "text", "text": SAID}, attached]
    first = of_erin("", runId="first", stateKey="chat", metadata={"note": KEPT}, tags={"team": "search"})
    first["messages"] = [{"role": "user", "content": content}]
    assert (await world.http.post("/v1/webhooks", json=HOOK)).status_code == 201
    labelled = {"scopes": ["runs:write"], "labels": {"endUser": ERIN, "fixed": True}}
    assert (await world.http.post("/v1/accounts/default/keys", json=labelled)).status_code == 201
    for budget_id, match in (("of-erin", {"match": ERIN}), ("of-each", {})):
        assert (await world.http.put(f"/v1/budgets/{budget_id}", json={**BUDGET, **match})).is_success
    assert (await world.http.post("/v1/runs/wait", json=first)).json()["ok"]
    assert (await world.http.post("/v1/runs/wait", json=of_erin(FOLLOWED, stateKey="chat"))).json()["ok"]
    forked = await world.http.post("/v1/sessions/chat/fork", json={"stateKey": "fork"})
    assert forked.status_code == 201, forked.text
    assert (await world.http.post("/v1/runs/wait", json=a_request("go on", stateKey="fork"))).json()["ok"]
    assert (await world.http.post("/v1/runs/wait", json=of_erin("a line"))).json()["ok"]
    waiting = await world.start(of_erin(WAITS, graphId=MAILER))
    await world.events(waiting, until="permission_request")
    later = of_erin(PLANNED, graphId=ASSISTANT)
    planned = {"scheduleId": "yearly", "cron": "0 0 1 1 *", "run": later}
    assert (await world.http.post("/v1/schedules", json=planned)).status_code == 201
    graph = (await world.http.get("/v1/runs/first")).json()["graphId"]
    listed = [a_line(str(number), LISTED, graph=graph, endUser=ERIN) for number in range(2)]
    await ended(world.http, await created(world.http, [*listed, a_line("4", OF_OTHERS, graph=graph)]))
    other = a_request(OF_OTHERS, endUser="frank", stateKey="of-frank")
    assert (await world.http.post("/v1/runs/wait", json=other)).json()["ok"]


@every_agent_at_length
async def test_no_word_is_found_anywhere_and_no_sum_has_changed(
    world_of: WorldOf, tmp_path: Path, database_url: str, redis_url: str
) -> None:
    with written_log(level="debug") as log:
        shared = {"REDIS_URL": redis_url, "RUNTALLY_IDLE_PROCESSES": 2, "RUNTALLY_PARK_AFTER_S": 0.05}
        world = await world_of(model, **shared, **settings(tmp_path))
        await say_everything(world)
        said = await in_tables(database_url, WORDS)
        before = await sums(world)

        job = await erased(world, ERIN)

        await files_are_deleted(world, tmp_path / "data")
        after = await sums(world)
        found = await in_tables(database_url, WORDS)
        relayed = await in_relay(redis_url, WORDS)
    proved = await verify(world.services.database, {})
    labels = (await world.http.get("/v1/usage", params={"groupBy": "endUser"})).json()
    runs = (await world.http.get("/v1/runs", params={"limit": 100})).json()["items"]

    # The search finds what there is.
    assert {word for _, word in said} == set(WORDS)
    assert found == set()
    assert relayed == set()
    assert written_in(log.getvalue(), WORDS) == set()
    assert after == before
    assert [finding for finding in proved.findings if "root" not in finding] == []
    assert (job["conversations"], job["receipts"] > 0) == (2, True)
    assert OF_OTHERS in str((await world.http.get("/v1/sessions/of-frank")).json())
    hashed = {run["endUser"] for run in runs if run["endUser"] not in {None, "frank"}}
    (erin,) = hashed
    assert erin.startswith("~")
    assert erin in str(labels)


async def test_an_erasure_goes_on_after_its_server_was_killed(migrated_path: Path) -> None:
    hold = Hold(index=5)

    def respond(request: ApiRequest) -> Reply:
        return Reply([Text(f"{ANSWER} two three")], hold=hold if request.last_text == WAITS else None)

    async with Simulator(respond) as simulator:
        async with a_server(migrated_path, simulator.url, agent=MESSAGES) as (server, http):
            assert (await http.post("/v1/runs/wait", json=of_erin(SAID, runId="first"))).json()["ok"]
            await http.post("/v1/runs", json=of_erin(WAITS, runId="held"))
            await hold.reached.wait()
            started = await http.delete(f"/v1/end-users/{quote(ERIN, safe='')}")
            server.kill()
        hold.until.set()
        async with a_server(migrated_path, simulator.url, agent=MESSAGES) as (_, http):
            await until_shown(http, started.headers["location"], lambda job: job["status"] == "completed")
            runs = (await http.get("/v1/runs")).json()["items"]
            receipts = [(await http.get(f"/v1/runs/{run['runId']}/receipts")).json()["items"] for run in runs]

    assert {run["runId"] for run in runs} == {"first", "held"}
    assert len({run["endUser"] for run in runs}) == 1
    assert len(receipts[0]) == len(receipts[1]) == 1
    assert written_in(str([runs, receipts]), WORDS) == set()
