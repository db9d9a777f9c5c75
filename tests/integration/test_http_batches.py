"""Batches over HTTP: what is refused before anything starts, limits, cancellation, and who may see what."""

from decimal import Decimal
from typing import Any

import httpx
import httpx_sse
import pytest

from app.ids import RunId, RunKey
from app.simulator.script import ApiRequest, Hold, Reply, Text
from app.workspaces.spec import WorkspaceSpec
from tests.batches import a_line, created, ended, joined, post, results
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import WorldOf, until
from tests.integration.conftest import in_shared_world
from tests.integration.test_http_billing import holder
from tests.integration.test_http_storage import outcome

GRAPH = f"{MESSAGES}:assistant"
WRITER = ("runs:write",)
VIEWER = ("runs:write", "runs:read")


def lines(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [a_line(str(number), f"number {number}", graph=GRAPH, **fields) for number in range(count)]


def echo(request: ApiRequest) -> Reply:
    return Reply([Text(f"You said {request.last_text}.")])


def expensive(_request: ApiRequest) -> Reply:
    """A message for about a tenth of a dollar."""
    return Reply([Text("Done.")], final_usage={"output_tokens": 6_600})


@in_shared_world
@pytest.mark.parametrize(
    ("second", "field"),
    [
        (b"{", "lines.2.body"),
        (b"\n", "lines.2.body"),
        (b'{"customId": "\xff"}', "lines.2.body"),
        (b"[" * 100_000, "lines.2.body"),
        (b'{"customId": "b", "request": "' + b"x" * 5_242_880 + b'"}', "lines.2.body"),
        (joined([a_line("0", "again", graph=GRAPH)]), "lines.2.customId"),
        (joined([a_line("red\x1b[31m", "hi", graph=GRAPH)]), "lines.2.customId"),
        (joined([a_line("", "hi", graph=GRAPH)]), "lines.2.customId"),
        (joined([{"customId": "b"}]), "lines.2.request"),
        (joined([{**a_line("b", "hi", graph=GRAPH), "url": "x"}]), "lines.2.url"),
        (joined([a_line("b", "hi", graph=f"{MESSAGES}:summarizer")]), "lines.2.request.graphId"),
        (joined([a_line("b", "hi", graph=GRAPH, runId="mine")]), "lines.2.request.runId"),
        (
            joined([a_line("b", "hi", graph=GRAPH, startAfter="2027-01-01T00:00:00Z")]),
            "lines.2.request.startAfter",
        ),
        (joined([a_line("b", "hi", graph=GRAPH, toolIds=["core__none"])]), "lines.2.request.toolIds.0"),
        (b" ", "lines.2.body"),
        (joined([a_line("b", "\x00", graph=GRAPH)]), "lines.2.request.messages.0.content"),
        (
            joined(
                [
                    a_line(
                        "b", "hi", graph=GRAPH, responseFormat={"type": "json_schema", "schema": {"type": 7}}
                    )
                ]
            ),
            "lines.2.request.responseFormat.schema",
        ),
    ],
)
async def test_an_error_names_its_line_and_its_field_and_nothing_is_started(
    tenant: httpx.AsyncClient, second: bytes, field: str
) -> None:
    answer = await post(tenant, joined(lines(1)) + second.removesuffix(b"\n") + b"\n" + joined(lines(3)[2:]))

    assert outcome(answer) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"] == field
    assert (await tenant.get("/v1/batches")).json()["items"] == []
    assert (await tenant.get("/v1/runs")).json()["items"] == []


@in_shared_world
async def test_a_batch_has_as_many_lines_as_it_may_have(tenant: httpx.AsyncClient) -> None:
    too_many = await post(tenant, lines(10_001))
    none = await post(tenant, b"")
    unknown = await post(tenant, [a_line("1", "hi", graph=f"{MESSAGES}:nobody")])
    as_json = await tenant.post("/v1/batches", json=lines(1)[0])

    assert too_many.json()["errors"] == [
        {"field": "lines.10001.body", "message": "must have at most 10000 lines"}
    ]
    assert none.json()["errors"] == [{"field": "body", "message": "must have at least one line"}]
    assert outcome(unknown) == (404, "graph_not_found")
    assert as_json.status_code == 415


@in_shared_world
async def test_a_repeated_request_is_the_same_batch(tenant: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "nightly"}
    first, again = [await post(tenant, lines(2), headers=key) for _ in range(2)]
    other = await post(tenant, lines(3), headers=key)
    other_terms = await post(tenant, lines(2), headers=key, parallelism=1)

    assert first.json()["batchId"] == again.json()["batchId"]
    assert outcome(other) == outcome(other_terms) == (409, "batch_key_taken")
    assert len((await tenant.get("/v1/batches")).json()["items"]) == 1


async def test_an_ended_batch_is_deleted_and_its_runs_stay(world_of: WorldOf) -> None:
    hold, key = Hold(index=4), {"Idempotency-Key": "nightly"}
    world = await world_of(lambda _request: Reply([Text("Done.")], hold=hold))
    path = await created(world.http, lines(2), headers=key)
    early = outcome(await world.http.delete(path))
    hold.until.set()
    await ended(world.http, path)
    async with holder(world, "default", *WRITER) as writer:
        of_other_key = outcome(await writer.delete(path))
    deleted = await world.http.delete(path)
    gone = [outcome(await world.http.request(method, path)) for method in ("GET", "DELETE")]
    runs = (await world.http.get("/v1/runs")).json()["items"]
    again = await created(world.http, lines(2), headers=key)

    assert early == (409, "batch_not_ended")
    assert of_other_key == (403, "forbidden")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert gone == [(404, "batch_not_found")] * 2
    assert {run["status"] for run in runs} == {"succeeded"}
    # The same key is the same batch: it has its runs, which no model is asked about again.
    assert again == path
    assert (await ended(world.http, again))["counts"]["succeeded"] == 2
    assert len(world.simulator.requests) == len(runs) == 2


async def test_what_it_costs_is_for_keys_that_may_see_it(world_of: WorldOf) -> None:
    world = await world_of(echo)
    path = await created(world.http, lines(2))
    await ended(world.http, path)
    async with holder(world, "default", *VIEWER) as viewer, holder(world, "default", *WRITER) as writer:
        batch = (await viewer.get(path)).json()
        costs = [each["costUsd"] for each in await results(viewer, path)]
        forecast = (await post(viewer, lines(2))).json()["forecast"]
        preview = (await viewer.post("/v1/runs/preview", json=lines(1)[0]["request"])).json()
        unread = [outcome(await writer.get(path)), outcome(await writer.post(f"{path}/cancel"))]

    assert batch["costUsd"] is None
    assert costs == [None, None]
    assert forecast is preview["forecast"] is None
    assert unread == [(403, "forbidden")] * 2


async def test_progress_is_streamed_to_the_end(world_of: WorldOf) -> None:
    hold = Hold(index=4)
    world = await world_of(lambda _: Reply([Text("Done.")], hold=hold))
    path = await created(world.http, lines(2))

    events: list[tuple[str, dict[str, Any]]] = []
    async with httpx_sse.aconnect_sse(world.http, "GET", f"{path}/events") as source:
        async for event in source.aiter_sse():
            events.append((event.event, event.json()))
            hold.until.set()

    assert events[0][0] == "progress"
    assert events[-1][0] == "done"
    assert events[-1][1] == await ended(world.http, path)


async def test_a_cancelled_batch_stops_what_runs_and_starts_nothing_more(world_of: WorldOf) -> None:
    hold = Hold(index=4)
    world = await world_of(lambda _: Reply([Text("Done.")], hold=hold))
    path = await created(world.http, lines(20), parallelism=2)
    await hold.reached.wait()
    await until(lambda: len(world.simulator.requests) == 2)

    stopping = (await world.http.post(f"{path}/cancel")).json()
    batch = await ended(world.http, path)
    again = (await world.http.post(f"{path}/cancel")).json()
    found = await results(world.http, path)

    assert stopping["reason"] == "cancelled"
    assert batch == again
    assert (batch["status"], batch["counts"]["cancelled"], batch["counts"]["pending"]) == ("cancelled", 20, 0)
    assert [each["status"] for each in found] == ["cancelled"] * 20
    assert [each["error"] for each in found] == ["aborted"] * 2 + ["cancelled"] * 18
    assert len(world.simulator.requests) == 2


async def test_no_item_is_started_beyond_the_limit_in_dollars(world_of: WorldOf) -> None:
    """Near the limit one at a time is: the limit is passed by the last one at most."""
    world = await world_of(expensive)

    path = await created(world.http, lines(20), parallelism=8, maxUsd="0.45")
    batch = await ended(world.http, path)
    found = await results(world.http, path)

    cost = max(Decimal(each["costUsd"]) for each in found)
    assert (batch["status"], batch["reason"]) == ("stopped", "max_usd")
    assert Decimal("0.45") <= Decimal(batch["costUsd"]) < Decimal("0.45") + cost
    assert batch["counts"]["succeeded"] == len(world.simulator.requests)
    assert batch["counts"]["succeeded"] + batch["counts"]["cancelled"] == 20


async def test_a_batch_without_credit_is_stopped_and_says_so(world_of: WorldOf) -> None:
    world = await world_of(echo)
    async with holder(world, "poor", "runs:write", "runs:read", "receipts:read") as poor:
        (await world.http.patch("/v1/accounts/poor", json={"mode": "prepaid"})).raise_for_status()
        path = await created(poor, lines(3))
        batch = await ended(poor, path)
        found = await results(poor, path)

    assert (batch["status"], batch["reason"]) == ("stopped", "insufficient_credits")
    assert {each["status"] for each in found} <= {"refused", "cancelled"}
    assert world.simulator.requests == []


async def test_credit_that_its_own_runs_have_reserved_only_delays_a_batch(world_of: WorldOf) -> None:
    world = await world_of(echo)
    async with holder(world, "poor", "runs:write", "runs:read", "receipts:read") as poor:
        (await world.http.patch("/v1/accounts/poor", json={"mode": "prepaid"})).raise_for_status()
        granted = await world.http.post("/v1/accounts/poor/grants", json={"usd": "0.50"})
        granted.raise_for_status()
        path = await created(poor, lines(6), parallelism=6)
        batch = await ended(poor, path)

    assert (batch["status"], batch["counts"]["succeeded"]) == ("completed", 6)


async def test_the_lines_may_be_a_file_of_a_run(world_of: WorldOf) -> None:
    world = await world_of(echo)
    run_id = await world.start(lines(1)[0]["request"])
    await world.ended(run_id)
    run = RunKey(await world.account_id(), RunId(run_id))
    async with world.services.database.transaction() as tx:
        upload = {"out/lines.jsonl": joined(lines(2))}
        await world.services.workspaces.reserve(tx, run, WorkspaceSpec(), upload)

    file = {"fileRunId": run_id, "filePath": "out/lines.jsonl"}
    answer = await post(world.http, b"", **file)
    batch = await ended(world.http, answer.headers["location"])
    refused = [
        outcome(await post(world.http, b"", **{**file, "filePath": "out/none"})),
        outcome(await post(world.http, lines(1), **file)),
        outcome(await post(world.http, b"", fileRunId=run_id)),
    ]
    async with holder(world, "default", *WRITER) as writer, holder(world, "other", *VIEWER) as other:
        unread = [outcome(await post(each, b"", **file)) for each in (writer, other)]

    assert batch["counts"]["succeeded"] == 2
    assert refused == [(404, "file_not_found"), (422, "invalid_request"), (422, "invalid_request")]
    assert unread == [(403, "forbidden"), (404, "run_not_found")]


async def test_a_batch_leaves_places_to_the_other_runs_of_its_account(world_of: WorldOf) -> None:
    hold = Hold(index=4)

    def respond(request: ApiRequest) -> Reply:
        is_item = request.last_text.startswith("number")
        return Reply([Text("Done.")], hold=hold if is_item else None)

    world = await world_of(respond, RUNTALLY_MAX_CONCURRENT_RUNS=4)
    path = await created(world.http, lines(8), parallelism=8)
    await until(lambda: len(world.simulator.requests) == 3)

    request = a_line("", "now", graph=GRAPH)["request"]
    answer = (await world.http.post("/v1/runs/wait", json=request)).json()
    running = (await world.http.get(path)).json()["counts"]["running"]
    hold.until.set()
    batch = await ended(world.http, path)

    assert answer["content"] == "Done."
    assert running == 3
    assert batch["counts"]["succeeded"] == 8


async def test_a_forecast_follows_from_earlier_runs(world_of: WorldOf) -> None:
    world = await world_of(expensive)
    request = lines(1)[0]["request"]
    before = (await world.http.post("/v1/runs/preview", json=request)).json()["forecast"]
    for _ in range(3):
        await world.http.post("/v1/runs/wait", json=request)
    (receipt, *_) = (await world.http.get("/v1/receipts")).json()["items"]

    one = (await world.http.post("/v1/runs/preview", json=request)).json()["forecast"]
    headers = {"Content-Type": "application/x-ndjson"}
    of_batch = await world.http.post("/v1/batches/preview", content=joined(lines(10)), headers=headers)
    created_batch = (await post(world.http, lines(10))).json()

    cost = Decimal(receipt["costUsd"])
    assert before is None
    assert one["runs"] == 3
    assert Decimal(one["costUsd"]["p50"]) == Decimal(one["costUsd"]["p95"]) == cost
    assert 0 < one["seconds"]["p50"] <= one["seconds"]["p95"]
    preview = of_batch.json()
    assert (preview["graphId"], preview["items"]) == (GRAPH, 10)
    assert Decimal(preview["forecast"]["costUsd"]["p95"]) == 10 * cost
    assert created_batch["forecast"] == preview["forecast"]


async def test_a_batch_is_deleted_with_the_contents_of_runs(world_of: WorldOf) -> None:
    world = await world_of(echo, RUNTALLY_RETENTION_DAYS=1)
    path = await created(world.http, lines(2))
    await ended(world.http, path)
    (first, _) = await results(world.http, path)
    await world.http.delete(f"/v1/runs/{first['runId']}")
    without_contents = (await results(world.http, path))[0]
    async with world.services.database.transaction() as tx:
        await tx.exec_driver_sql("UPDATE batches SET ended_at = ended_at - interval '2 days'")

    await world.services.batches._delete_old()

    assert (without_contents["result"], without_contents["error"]) == (None, "run_deleted")
    assert outcome(await world.http.get(path)) == (404, "batch_not_found")
    assert len((await world.http.get("/v1/runs")).json()["items"]) == 2
