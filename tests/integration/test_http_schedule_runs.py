"""Runs of schedules over HTTP."""

import asyncio
from datetime import datetime
from typing import Any

import asyncpg
import httpx

from app.platform.pagination import PageRequest
from app.simulator.script import in_turn
from tests.e2e.stories import WorldOf, a_client, a_request
from tests.factories import a_wait, reached_by, scripted
from tests.integration.schedule_server import this_minute, yearly
from tests.integration.test_http_schedules import SAYS_HI, a_body, created, history
from tests.integration.test_http_storage import outcome
from tests.media import large_image
from tests.patience import PATIENCE_S


async def make_due(database_url: str, moment: datetime) -> None:
    """Let every schedule be due at this moment."""
    # Statements without a name: a pooler may be between.
    admin = await asyncpg.connect(database_url, statement_cache_size=0)
    await admin.execute("UPDATE schedules SET next_at = $1 WHERE next_at IS NOT NULL", moment)
    await admin.close()


async def decided(http: httpx.AsyncClient, path: str, count: int = 1) -> list[dict[str, Any]]:
    """Wait until so many due times are decided."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found = await history(http, path)
            if len([each for each in found if each["outcome"] not in {"starting", "waiting"}]) >= count:
                return found
            await asyncio.sleep(0.05)


async def test_a_due_schedule_starts_a_run_that_is_charged_to_its_key(
    world_of: WorldOf, database_url: str
) -> None:
    world = await world_of(in_turn(), executors=scripted(SAYS_HI))
    moment = this_minute()
    path = await created(world.http, yearly(moment), scheduleId="report")
    await make_due(database_url, moment)
    (due,) = await decided(world.http, path)
    run = await world.ended(due["runId"])
    receipts = await world.receipts(due["runId"])
    schedule = (await world.http.get(path)).json()

    assert (due["outcome"], due["trigger"], due["error"]) == ("started", "cron", None)
    assert (run["status"], run["final"]["content"]) == ("succeeded", "hi")
    assert run["requestId"] == "schedule:report"
    assert [receipt["ingressRequestId"] for receipt in receipts] == [run["requestId"]]
    assert schedule["lastAt"] == due["dueAt"]
    assert schedule["nextAt"] > due["dueAt"]


async def test_a_run_is_started_on_request_subject_to_the_policy(world_of: WorldOf) -> None:
    wait = a_wait()
    world = await world_of(in_turn(), executors=scripted(wait, SAYS_HI))
    skipping = await created(world.http, paused=True)
    queueing = await created(world.http, overlap="queue")
    first = await world.http.post(f"{skipping}/trigger")
    await reached_by(wait)
    second = await world.http.post(f"{skipping}/trigger")
    others = [(await world.http.post(f"{queueing}/trigger", json={})).json() for _ in range(3)]
    wait.until.set()
    found = await decided(world.http, queueing, 3)
    pages = (await world.http.get(f"{queueing}/runs", params={"limit": 2})).json()
    rest = await world.http.get(f"{queueing}/runs", params={"cursor": pages["nextCursor"]})
    for due in [first.json(), *found]:
        if due["runId"] is not None:
            await world.ended(due["runId"])

    assert (first.status_code, second.status_code) == (202, 202)
    assert (first.json()["outcome"], first.json()["trigger"]) == ("started", "request")
    assert (second.json()["outcome"], second.json()["runId"]) == ("skipped", None)
    assert [other["outcome"] for other in others] == ["started", "waiting", "skipped"]
    assert [due["outcome"] for due in found] == ["skipped", "started", "started"]
    assert pages["items"] + rest.json()["items"] == found
    assert len((await world.http.get("/v1/runs")).json()["items"]) == 3


async def test_a_revoked_key_pauses_its_schedule_and_another_key_may_go_on_with_it(
    world_of: WorldOf, database_url: str
) -> None:
    world = await world_of(in_turn(), executors=scripted(SAYS_HI))
    account = "rotating"
    old, old_key = await world.services.accounts.create_key(account, ["runs:write"])
    new, new_key = await world.services.accounts.create_key(account, ["runs:write", "runs:read"])
    async with a_client(world.url, old_key) as creator, a_client(world.url, new_key) as successor:
        moment = this_minute()
        path = await created(creator, yearly(moment))
        await world.http.delete(f"/v1/keys/{old.id}")
        await make_due(database_url, moment)
        (refused,) = await decided(successor, path)
        paused = (await successor.get(path)).json()
        triggered = (await successor.post(f"{path}/trigger")).json()
        changed = await successor.patch(path, json={"run": a_request("And now?"), "catchUpS": 120})
        resumed = (await successor.post(f"{path}/resume")).json()
        started = (await successor.post(f"{path}/trigger")).json()
        await world.http.delete(f"/v1/keys/{new.id}")
        run = await world.services.runs.list_runs(new.account_id, PageRequest(10))

    assert (refused["outcome"], refused["error"]) == ("refused", "unauthenticated")
    assert (paused["pausedReason"], paused["nextAt"]) == ("key_revoked", None)
    assert (triggered["outcome"], triggered["error"]) == ("refused", "unauthenticated")
    assert changed.status_code == 200
    assert (resumed["paused"], resumed["nextAt"] is None) == (False, False)
    assert started["outcome"] == "started"
    assert [each.api_key_id for each in run[0]] == [new.id]


async def test_a_request_with_images_may_be_large(world_of: WorldOf) -> None:
    world = await world_of(in_turn(), executors=scripted(SAYS_HI))
    image = {"type": "image", "mediaType": "image/png", "data": large_image(6_000_000)}
    run = a_request(messages=[{"role": "user", "content": [{"type": "text", "text": "See"}, image]}])

    path = await created(world.http, run=run)
    triggered = (await world.http.post(f"{path}/trigger")).json()
    await world.ended(triggered["runId"])
    too_large = await world.http.post("/v1/schedules", json=a_body(run=a_request("x" * 21_000_000)))
    pausing = await world.http.post(f"{path}/pause", json={"padding": "x" * 100_000})

    assert triggered["outcome"] == "started"
    assert outcome(too_large) == (413, "payload_too_large")
    assert outcome(pausing) == (413, "payload_too_large")
