"""Errors of the provider that no client can do anything about, and whom they reach."""

import json
from typing import Any

import pytest

from app.simulator.script import Answer, HttpError, Reply, Responder, Text, in_turn
from tests.e2e.agents import CLAUDE, every_agent
from tests.e2e.stories import World, WorldOf, a_request, until

MODEL = "claude-sonnet-5-5"
OTHER = "claude-opus-5-5"
TOO_OLD = "claude_code_version_too_old"
WORDS = "update it at once, says the provider"


def refused_with(code: str, status: int = 400) -> HttpError:
    return HttpError(status, "invalid_request_error", WORDS, details={"error_code": code})


async def shown(world: World) -> tuple[dict[str, Any], dict[str, str | None]]:
    """What monitors and clients see of the provider and of its models."""
    readiness = (await world.http.get("/readyz")).raise_for_status().json()
    models = (await world.http.get("/v1/models")).raise_for_status().json()["items"]
    return readiness, {each["id"]: each.get("refusal") for each in models}


@every_agent
async def test_a_run_ends_at_once_and_the_operator_knows_why(world_of: WorldOf, agent: str) -> None:
    world = await world_of(in_turn(refused_with(TOO_OLD), Reply([Text("hi")]), Reply([Text("hi")])))
    readiness = world.services.readiness
    assert readiness is not None
    await until(lambda: readiness.checked)

    events = await world.run(a_request(model=MODEL, runId="r-1"))
    seen, models = await shown(world)
    metrics = (await world.http.get("/metrics")).text

    assert [event.data["error"] for event in events if event.type == "error"] == ["provider_refused"]
    assert len(world.simulator.requests) == 1
    assert await world.receipts("r-1") == []
    assert WORDS not in json.dumps([event.data for event in events])
    assert (seen["provider"], seen["refusals"]) == ("refusing", [TOO_OLD])
    assert (models[MODEL], models[OTHER]) == (TOO_OLD, None)
    assert f'runtally_provider_refusals_total{{code="{TOO_OLD}"}} 1.0' in metrics

    if agent == CLAUDE:
        # The gateway has seen the rest, which is the same.
        return
    # Another model may work; that one still does not.
    await world.run(a_request(model=OTHER))
    assert (await shown(world))[0]["provider"] == "refusing"
    await world.run(a_request(model=MODEL))
    seen, models = await shown(world)
    assert (seen["provider"], seen.get("refusals"), models[MODEL]) == ("ok", None, None)


PROBLEMS: list[tuple[Answer, int, str]] = [
    (HttpError(400, message="Your credit balance is too low to …"), 503, "provider_refused"),
    (refused_with("tool_name_conflict"), 422, "invalid_request"),
    (Reply([Text("on")], stop_reason="max_tokens"), 422, "length"),
]


async def test_a_caller_that_waits_for_the_answer_gets_a_problem(world_of: WorldOf) -> None:
    world, found = await world_of(in_turn()), list[tuple[int, str]]()
    for answer, _, _ in PROBLEMS:
        world.simulator.responder = answering(answer)
        response = await world.http.post("/v1/generate/text", json={"prompt": "hi"})
        found.append((response.status_code, response.json()["code"]))

    assert found == [(status, code) for _, status, code in PROBLEMS]


def answering(answer: Answer) -> Responder:
    return lambda _: answer


@every_agent
@pytest.mark.parametrize(
    ("fields", "window"),
    [
        ({"model": "claude-haiku-4-5"}, 200_000),
        # The CLI would fill 200K of its context only.
        ({"model": "claude-sonnet-4-6", "stateKey": "chat"}, 1_000_000),
    ],
)
async def test_a_prompt_that_may_be_too_long_is_judged_by_the_provider(
    world_of: WorldOf, fields: dict[str, Any], window: int
) -> None:
    """The CLI alone would refuse it by an estimate."""
    world = await world_of(in_turn(Reply([Text("read")])))

    events = await world.run(a_request("lorem ip " * 84_445, **fields))

    assert (events[-1].data["finishReason"], events[-1].data["contextWindow"]) == ("stop", window)
    assert [request.body["model"] for request in world.simulator.requests] == [fields["model"]]
