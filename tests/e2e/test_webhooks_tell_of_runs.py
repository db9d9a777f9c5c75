from typing import Any

from app.simulator.script import HttpError, Reply, Text, in_turn
from tests.e2e.agents import without_cli
from tests.e2e.stories import World, WorldOf, a_request, until
from tests.receivers import Receiver, a_receiver

EVENTS = ["run.completed", "run.failed", "receipt.created", "budget.threshold"]
LABELS: dict[str, Any] = {"endUser": "ann", "tags": {"team": "search"}}


async def subscribed(world: World, receiver: Receiver) -> dict[str, Any]:
    """The receiver's webhook, for everything."""
    answer = await world.http.post("/v1/webhooks", json={"url": receiver.url, "events": EVENTS})
    webhook: dict[str, Any] = answer.raise_for_status().json()
    return webhook


@without_cli
async def test_a_receiver_hears_what_became_of_runs_and_what_they_cost(world_of: WorldOf) -> None:
    refusal = HttpError(401, "authentication_error")
    world = await world_of(in_turn(Reply([Text("hi")]), refusal), RUNTALLY_WEBHOOK_ALLOW_PRIVATE=True)
    async with a_receiver() as receiver:
        webhook = await subscribed(world, receiver)

        await world.run(a_request(runId="good-1", **LABELS))
        await world.run(a_request(runId="bad-1"))
        await until(lambda: len(receiver.posts) == 3)

        told = {post.event["type"]: post.verified(webhook["secret"])["data"] for post in receiver.posts}
        (receipt,) = await world.receipts("good-1")
        runs = {run: (await world.http.get(f"/v1/runs/{run}")).json() for run in ("good-1", "bad-1")}
        deliveries = (await world.http.get(f"/v1/webhooks/{webhook['id']}/deliveries")).json()["items"]

    assert sorted(told) == ["receipt.created", "run.completed", "run.failed"]
    assert {name: receipt[name] for name in told["receipt.created"]} == told["receipt.created"]
    for event, run in (("run.completed", "good-1"), ("run.failed", "bad-1")):
        shown, final = runs[run], runs[run]["final"]
        assert told[event] == {
            **{name: shown[name] for name in ("runId", "graphId", "model", "status", "attempt")},
            **{name: shown[name] for name in ("createdAt", "endedAt", "endUser", "tags")},
            **{name: final[name] for name in ("error", "finishReason")},
        }
    assert told["run.failed"]["error"] == "provider_unavailable"
    assert {name: told["run.completed"][name] for name in LABELS} == LABELS
    assert told["run.failed"]["endUser"] is told["run.failed"]["tags"] is None
    assert {each["id"] for each in deliveries} == set(receiver.ids)
