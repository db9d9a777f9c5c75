"""Titles of conversations by a model: one run after the first answer, whatever happens to it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.simulator.script import Answer, ApiRequest, Hold, HttpError, Reply, Responder, Text
from app.simulator.server import Simulator
from tests.e2e.agents import MESSAGES
from tests.e2e.servers import a_server
from tests.e2e.stories import World, WorldOf, a_client, a_request, until
from tests.e2e.test_a_server_dies_and_comes_back import words_read
from tests.integration.gateway_seam import FIRST_DELTA
from tests.patience import until_shown

HAIKU = "claude-haiku-5-5"
ON = {"RUNTALLY_TITLE_MODEL": "haiku", "agent": MESSAGES}
QUESTION = "How do herons spend the winter?"
TAGGED = {"team": "birds", "purpose": "title"}


def titled(answer: Answer | Callable[[], Answer], asked: list[ApiRequest]) -> Responder:
    """A model that answers `yes`, and gives this answer where a title is asked for."""

    def respond(request: ApiRequest) -> Answer:
        if request.body["model"] != HAIKU:
            return Reply([Text("yes")])
        asked.append(request)
        return answer() if callable(answer) else answer

    return respond


async def ask(http: httpx.AsyncClient, **fields: Any) -> str:
    """Ask the question to its end; returns the run."""
    request = a_request(QUESTION, stateKey="chat-1", tags={"team": "birds"}, **fields)
    response = (await http.post("/v1/runs/wait", json=request)).raise_for_status()
    run_id: str = response.json()["runId"]
    return run_id


async def title(http: httpx.AsyncClient) -> str:
    text: str = (await http.get("/v1/sessions/chat-1")).json()["title"]
    return text


def titling(runs: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for run in runs["items"] if run["graphId"] == f"{MESSAGES}:generate"]


async def the_titling_run(http: httpx.AsyncClient) -> dict[str, Any]:
    """The run that has asked for the title, once its contents are deleted."""

    def is_over(runs: dict[str, Any]) -> bool:
        return any(run["contentsDeletedAt"] for run in titling(runs))

    (run,) = titling(await until_shown(http, "/v1/runs", is_over))
    return run


async def charged(world: World, run: dict[str, Any]) -> list[dict[str, Any]]:
    path = f"/v1/runs/{run['runId']}/receipts"
    receipts: list[dict[str, Any]] = (
        await until_shown(world.http, path, lambda found: len(found["items"]) > 0)
    )["items"]
    return receipts


async def test_a_title_is_a_run_of_its_own_on_the_bill_and_leaves_nothing_else(world_of: WorldOf) -> None:
    asked: list[ApiRequest] = []
    world = await world_of(titled(Reply([Text("**Herons** in winter.\nNo more.")]), asked), **ON)

    first = await ask(world.http, endUser="ada")
    run = await the_titling_run(world.http)
    assert await title(world.http) == "Herons in winter"
    (receipt,) = await charged(world, run)
    assert (receipt["model"], receipt["tags"], receipt["endUser"]) == (HAIKU, TAGGED, "ada")
    assert len(await world.receipts(first)) == 1
    usage = (await world.http.get("/v1/usage", params={"groupBy": "tag:purpose"})).json()["items"]
    assert {item["group"]: item["receipts"] for item in usage} == {"title": 1, None: 1}
    assert (await world.http.get(f"/v1/runs/{run['runId']}/events")).status_code == 410

    # Only the first turn asks for one.
    await ask(world.http)
    await ask(world.http)
    assert [request.last_text for request in asked] == [QUESTION]
    assert asked[0].tool_names == []


async def test_the_answer_does_not_wait_for_the_title_and_a_persons_title_stays(world_of: WorldOf) -> None:
    hold, asked = Hold(index=2), list[ApiRequest]()
    world = await world_of(titled(Reply([Text("Herons in winter")], hold=hold), asked), **ON)

    await ask(world.http)
    await hold.reached.wait()
    assert await title(world.http) == QUESTION
    await ask(world.http)
    (await world.http.patch("/v1/sessions/chat-1", json={"title": "My birds"})).raise_for_status()
    hold.until.set()
    run = await the_titling_run(world.http)
    assert await title(world.http) == "My birds"
    assert len(await charged(world, run)) == 1


async def test_no_title_is_asked_for_where_a_person_has_given_one(world_of: WorldOf) -> None:
    hold, asked = Hold(index=2), list[ApiRequest]()

    def respond(request: ApiRequest) -> Answer:
        if request.body["model"] != HAIKU and request.last_text == QUESTION:
            return Reply([Text("yes")], hold=hold)
        if request.body["model"] == HAIKU:
            asked.append(request)
        return Reply([Text("Herons in winter")])

    world = await world_of(respond, **ON)
    run_id = await world.start(a_request(QUESTION, stateKey="chat-1"))
    await hold.reached.wait()
    (await world.http.patch("/v1/sessions/chat-1", json={"title": "My birds"})).raise_for_status()
    hold.until.set()
    await world.ended(run_id)
    # The title of a later conversation comes after the decision about this one.
    await world.http.post("/v1/runs/wait", json=a_request("Another one", stateKey="chat-2"))
    await the_titling_run(world.http)
    assert await title(world.http) == "My birds"
    assert [request.last_text for request in asked] == ["Another one"]


async def test_a_key_for_one_graph_and_model_gets_titles_but_may_not_ask_for_them(world_of: WorldOf) -> None:
    asked: list[ApiRequest] = []
    world = await world_of(titled(Reply([Text("Herons in winter")]), asked), **ON)
    graph = f"{MESSAGES}:assistant"
    _, secret = await world.services.accounts.create_key(
        "narrow", ["runs:read", "runs:write"], graphs=[graph], models=["sonnet"]
    )

    async with a_client(world.url, secret, agent=MESSAGES) as http:
        await ask(http, graphId=graph)
        await the_titling_run(http)
        assert await title(http) == "Herons in winter"
        refused = await http.post("/v1/runs", json=a_request(graphId=f"{MESSAGES}:generate"))
    assert refused.json()["code"] == "graph_not_allowed"


@pytest.mark.parametrize("answer", [HttpError(400), Reply([Text("\u202e")])])
async def test_without_a_usable_title_it_stays_the_question(world_of: WorldOf, answer: Answer) -> None:
    asked: list[ApiRequest] = []
    world = await world_of(titled(answer, asked), **ON)
    await ask(world.http)
    await the_titling_run(world.http)
    assert (await title(world.http), len(asked)) == (QUESTION, 1)


async def test_titles_are_off_by_default(world_of: WorldOf) -> None:
    world = await world_of(lambda _request: Reply([Text("yes")]), agent=MESSAGES)
    await ask(world.http)
    assert len((await world.http.get("/v1/runs")).json()["items"]) == 1
    assert await title(world.http) == QUESTION


async def test_a_killed_server_charges_a_title_once_and_asks_for_no_other(migrated_path: Path) -> None:
    hold, asked = Hold(index=FIRST_DELTA + 2), list[ApiRequest]()
    settings = {"RUNTALLY_TITLE_MODEL": "haiku"}
    async with Simulator(titled(Reply([Text("Herons in winter")], hold=hold), asked)) as simulator:
        async with a_server(migrated_path, simulator.url, agent=MESSAGES, **settings) as (server, http):
            await ask(http)
            await hold.reached.wait()
            (run,) = titling((await http.get("/v1/runs")).json())
            await words_read(http, run["runId"], 1)
            server.kill()
            await until(lambda: not server.is_running())
        hold.until.set()
        async with a_server(migrated_path, simulator.url, agent=MESSAGES, **settings) as (_, http):
            await ask(http)
            (run,) = titling((await http.get("/v1/runs")).json())
            path = f"/v1/runs/{run['runId']}/receipts"
            found = await until_shown(http, path, lambda found: len(found["items"]) > 0)
            assert await title(http) == QUESTION
            await until_shown(http, f"/v1/runs/{run['runId']}", lambda run: run["endedAt"] is not None)
            (kept,) = titling((await http.get("/v1/runs")).json())
            (await http.delete("/v1/sessions/chat-1")).raise_for_status()
            (deleted,) = titling((await http.get("/v1/runs")).json())
    assert (len(found["items"]), len(asked)) == (1, 1)
    assert (kept["contentsDeletedAt"], deleted["contentsDeletedAt"] is None) == (None, False)
