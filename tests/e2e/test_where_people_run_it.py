"""The core stories, in each environment that people run it in: `ENVIRONMENTS` has them by name.

An environment starts programs in a directory, and yields the variables that a server needs there.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import pytest_asyncio

from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse
from app.simulator.server import Simulator
from tests.e2e.agents import CLAUDE, MESSAGES, named_by_caller
from tests.e2e.office import MAIL, MAILER, WORKER, office, settings
from tests.e2e.servers import a_server
from tests.e2e.stories import ASSISTANT, PROVIDER_KEY, World, a_request, a_world, first_text, said
from tests.e2e.test_a_conversation_goes_on import messages_of
from tests.environments import outgoing_proxy, pgbouncer, sentinel, valkey_cluster
from tests.integration.schedule_server import this_minute, yearly
from tests.integration.test_http_schedule_runs import decided, make_due
from tests.integration.test_http_schedules import created
from tests.patience import PATIENCE_S
from tests.receivers import a_receiver

Opened = Callable[[Path, str, str], AbstractAsyncContextManager[dict[str, str]]]
ENVIRONMENTS: Mapping[str, Opened] = {
    "pgbouncer": pgbouncer.opened,
    "pgbouncer-session": partial(pgbouncer.opened, mode="session"),
    "valkey-cluster": valkey_cluster.opened,
    "sentinel": sentinel.opened,
    "outgoing-proxy": outgoing_proxy.opened,
}

CONVERSATIONS, TURNS = 6, 4


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One story is short enough for every run of the tests."""
    is_short = metafunc.function is test_a_run_with_each_executor
    marks = [] if is_short else [pytest.mark.long]
    # See test_poolers and test_behind_an_outgoing_proxy.
    elsewhere = {"pgbouncer-session", "outgoing-proxy"} if is_short else set[str]()
    places = [pytest.param(name, marks=marks) for name in ENVIRONMENTS if name not in elsewhere]
    metafunc.parametrize("place", places, indirect=True)


@dataclass(frozen=True, slots=True)
class Place:
    """An environment, and the model of all servers in it."""

    directory: Path
    simulator: Simulator
    hold: Hold
    """Of the answer to `hold`."""
    variables: Mapping[str, str]

    def world(self, name: str) -> AbstractAsyncContextManager[World]:
        """A server in this process."""
        chosen: dict[str, Any] = {**settings(self.directory), **self.variables}
        database_url = chosen.pop("DATABASE_URL")
        return a_world(self.directory / name, database_url, self.simulator.responder, **chosen)

    def server(self, name: str) -> AbstractAsyncContextManager[tuple[psutil.Process, httpx.AsyncClient]]:
        """A server in a process of its own."""
        (self.directory / name).mkdir()
        graphs = {key: str(value) for key, value in settings(self.directory).items()}
        return a_server(self.directory / name, self.simulator.url, **{**graphs, **self.variables})


@pytest_asyncio.fixture
async def place(
    request: pytest.FixtureRequest, tmp_path: Path, database_url: str, redis_url: str
) -> AsyncIterator[Place]:
    hold = Hold(index=5)

    def respond(asked: ApiRequest) -> Reply:
        if asked.tool_results:
            return Reply([Text("Done.")])
        if "mail" in asked.last_text:
            return Reply([ToolUse(MAIL, {"to": "bob@example.org", "text": "Hello"})])
        # Only the first time: what is tried again goes on.
        is_held = "hold" in asked.last_text and not hold.reached.is_set()
        return Reply([Text("one two three four")], hold=hold if is_held else None)

    (tmp_path / "environment").mkdir()
    async with Simulator(named_by_caller(respond)) as simulator:
        opening = ENVIRONMENTS[request.param](tmp_path / "environment", database_url, simulator.url)
        async with opening as variables:
            common = {
                "DATABASE_URL": database_url,
                "REDIS_URL": redis_url,
                "ANTHROPIC_BASE_URL": simulator.url,
                "ANTHROPIC_API_KEY": PROVIDER_KEY,
                "RUNTALLY_LEASE_S": "5",
                "RUNTALLY_WEBHOOK_ALLOW_PRIVATE": "true",
            }
            yield Place(tmp_path, simulator, hold, {**common, **variables})
        hold.until.set()


async def test_a_run_with_each_executor(place: Place) -> None:
    async with place.world("only") as world:
        for agent in (MESSAGES, CLAUDE):
            graph = ASSISTANT.replace(CLAUDE, agent)
            assert said(await world.run(a_request(graphId=graph, runId=agent))) == "one two three four"
            assert len(await world.receipts(agent)) == 1
        ready = await world.http.get("/readyz")
    assert (ready.status_code, ready.json()["status"]) == (200, "ok")


async def test_conversations_at_the_same_time(place: Place) -> None:
    """Two servers, both executors; each turn goes to either server."""
    async with place.world("one") as one, place.world("other") as other:

        async def converse(number: int) -> list[str]:
            graph = ASSISTANT.replace(CLAUDE, [MESSAGES, CLAUDE][number % 2])
            finals = []
            for turn in range(TURNS):
                body = a_request(f"turn {turn}", graphId=graph, stateKey=f"chat-{number}")
                posted = await [one, other][(number + turn) % 2].http.post("/v1/runs/wait", json=body)
                assert posted.status_code == 200, posted.text
                finals.append(posted.json()["content"])
            return finals

        answers = await asyncio.gather(*map(converse, range(CONVERSATIONS)))
        shown = [await messages_of(one, f"chat-{number}") for number in range(CONVERSATIONS)]

    assert answers == [["one two three four"] * TURNS] * CONVERSATIONS
    questions = [[each for each in messages if each["type"] == "user_message"] for messages in shown]
    assert [len(each) for each in questions] == [TURNS] * CONVERSATIONS


async def test_a_call_that_a_person_allows(place: Place) -> None:
    async with place.world("one") as one, place.world("other") as other:
        run_id = await one.start(a_request("mail", graphId=MAILER))
        *_, request = await one.events(run_id, until="permission_request")
        answer = await other.decide(run_id, request.data, decision="allow")
        run = await one.ended(run_id)

    assert answer.status_code == 200, answer.text
    assert run["final"]["content"] == "Done."
    assert office().sent == [("bob@example.org", "Hello")]


async def test_a_run_of_a_killed_server_goes_on_in_another(place: Place) -> None:
    async with place.world("left") as left, place.server("killed") as (server, http):
        body = a_request("hold", runId="kept", stateKey="chat", graphId=WORKER)
        assert (await http.post("/v1/runs", json=body)).status_code == 202
        await place.hold.reached.wait()
        server.kill()
        run = await left.ended("kept")

    assert (run["attempt"], run["status"], run["final"]["content"]) == (1, "succeeded", "one two three four")


async def test_a_reader_on_the_other_server(place: Place) -> None:
    async with place.world("one") as one, place.world("other") as other:
        run_id = await one.start(a_request("hold"))
        # Before the run has ended.
        async with asyncio.timeout(PATIENCE_S):
            before = await first_text(other, run_id, deltas=1)
        place.hold.until.set()
        whole = said(await other.events(run_id))

    assert (bool(before), whole) == (True, "one two three four")


async def test_a_schedule_is_due(place: Place) -> None:
    async with place.world("only") as world:
        moment = this_minute()
        path = await created(world.http, yearly(moment))
        await make_due(place.variables["DATABASE_URL"], moment)
        (due,) = await decided(world.http, path)
        run = await world.ended(due["runId"])

    assert (due["outcome"], run["status"]) == ("started", "succeeded")


async def test_a_webhook_tells_of_a_run(place: Place) -> None:
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(place.world("only"))
        receiver = await stack.enter_async_context(a_receiver())
        hook = {"url": receiver.url, "events": ["run.completed"]}
        webhook = (await world.http.post("/v1/webhooks", json=hook)).raise_for_status().json()
        await world.run(a_request(runId="told"))
        async with asyncio.timeout(PATIENCE_S):
            while not receiver.posts:
                await asyncio.sleep(0.02)

    assert receiver.posts[0].verified(webhook["secret"])["data"]["runId"] == "told"
