"""Whatever wire a run comes over, its bill, its rules and its readers' events are the same.

`tests/e2e/test_the_bill_equals_the_wire.py` has every case of a bill,
`tests/e2e/test_rules_decide_about_calls.py` every rule, and `tests/security/test_accounts_are_apart.py`
every operation with keys of two accounts.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any, TypeAlias
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio

from app.models.registry import UnknownModel
from app.requests.principal import SCOPES
from app.runs.generate import Generator
from app.runs.requests.generate import GenerateTextRequest
from app.simulator.script import Block, Hold, Reply, Responder, Text, Thinking, ToolUse, in_turn
from tests.e2e.agents import MESSAGES, named
from tests.e2e.office import MAIL, close_office, office
from tests.e2e.office import settings as office_settings
from tests.e2e.stories import World, WorldOf, a_client
from tests.e2e.test_the_bill_equals_the_wire import CACHED
from tests.e2e.the_bill import bill, wire
from tests.integration.doors import DOORS, MANAGED, RESPONSES, managed, openai, stream
from tests.integration.mcp_messages import TOKEN, WITH_TASKS, a_call, beginning, in_session, modern, of_task
from tests.patience import PATIENCE_S, until_shown

pytestmark = pytest.mark.asyncio(loop_scope="module")
every_door = pytest.mark.parametrize("door", DOORS)

Rests: TypeAlias = Sequence[Callable[[], Awaitable[httpx.Response]]]
Reader: TypeAlias = Callable[[httpx.AsyncClient], Awaitable[tuple[list[str], Rests]]]

GRAPH = "mailer"
RULES = [
    {"tool": "office__*", "when": "args.to.startsWith('eve@')", "do": "deny", "message": "Not to Eve."},
    {"tool": "office__*", "when": "true", "do": "allow"},
]
WORDS = "one two three four five six seven"


def a_mail(to: str) -> ToolUse:
    return ToolUse(MAIL, {"to": f"{to}@example.org", "text": "Hello"})


def two_mails() -> Responder:
    blocks: list[Block] = [Thinking("Hm."), Text("So."), a_mail("bob"), a_mail("eve")]
    return in_turn(
        Reply(blocks, usage=CACHED, final_usage={"output_tokens": 211}),
        Reply([Text("Done.")], usage={"input_tokens": 600, "output_tokens": 1}),
    )


CASES: dict[str, tuple[Callable[[], Responder], list[str]]] = {
    "a mail that a rule allows, and one that a rule denies": (two_mails, ["bob@example.org"]),
    "cut inside the first block": (
        lambda: in_turn(Reply([Text(WORDS)], usage=CACHED, cut_after=6), Reply([Text("kept")])),
        [],
    ),
    "an error in the middle of a stream": (
        lambda: lambda _: Reply([Text(WORDS)], error_after=(5, "overloaded_error")),
        [],
    ),
    "a refusal": (lambda: lambda _: Reply([Text("No.")], stop_reason="refusal"), []),
}
"""What the model answers, and to whom a mail is sent."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(shared_world_of: WorldOf, tmp_path_factory: pytest.TempPathFactory) -> World:
    office = office_settings(tmp_path_factory.mktemp("doors"), rules=json.dumps(RULES))
    return await shared_world_of(in_turn(), agent=MESSAGES, **office)


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(world: World) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an account of the test's own."""
    close_office()
    async with a_client(world.url, (await a_key(world))) as http:
        yield http


async def a_key(world: World, **options: Any) -> str:
    scopes = [scope for scope in SCOPES if scope != "admin"]
    _, key = await world.services.accounts.create_key(f"tenant-{uuid4().hex}", scopes, **options)
    return key


async def the_response(http: httpx.AsyncClient, answer: httpx.Response) -> str:
    return (await http.get(f"{RESPONSES}/{answer.json()['id']}")).text


async def the_task(http: httpx.AsyncClient, answer: httpx.Response) -> str:
    task = of_task("get", answer.json()["result"]["taskId"])
    return (await http.post("/mcp", **modern(task, **WITH_TASKS))).text


async def the_session(http: httpx.AsyncClient, answer: httpx.Response) -> str:
    return (await http.get(f"{MANAGED}/{answer.json()['id']}/events")).text


LATER: dict[str, Callable[[httpx.AsyncClient, httpx.Response], Awaitable[str]]] = {
    "responses, in the background": the_response,
    "MCP, as a task": the_task,
    "Managed Agents": the_session,
}
"""What is read at the end, where the answer comes before it."""


async def ended(http: httpx.AsyncClient) -> str:
    """The id of the newest run, once all have ended."""
    found = await until_shown(
        http,
        "/v1/runs",
        lambda found: found["items"] and all(each["final"] is not None for each in found["items"]),
    )
    run_id: str = found["items"][0]["runId"]
    return run_id


@every_door
async def test_the_bill_equals_the_wire_and_rules_hold(
    world: World, tenant: httpx.AsyncClient, door: str
) -> None:
    before = len(world.simulator.sent)
    for case, (a_responder, mails) in CASES.items():
        world.simulator.responder = named(MESSAGES, a_responder())
        office().sent.clear()

        await DOORS[door](tenant, GRAPH, "Write to both.")

        await ended(tenant)
        assert [to for to, _ in office().sent] == mails, case

    receipts = (await tenant.get("/v1/receipts", params={"limit": 100})).raise_for_status().json()["items"]
    assert bill(receipts) == wire(world.simulator.sent[before:]) != {}
    assert len((await tenant.get("/v1/runs")).json()["items"]) == len(CASES)
    balance = (await tenant.get("/v1/balance")).json()
    assert balance["spent"] == sum(each["chargedCredits"] for each in receipts)
    assert balance["reserved"] == 0


@every_door
async def test_a_key_for_other_graphs_begins_no_run(world: World, door: str) -> None:
    sent = len(world.simulator.sent)
    async with a_client(world.url, await a_key(world, graphs=[f"{MESSAGES}:worker"])) as http:
        answer = await DOORS[door](http, GRAPH, "Write to both.")

        assert answer.status_code >= 400 or "error" in answer.json(), answer.text
        assert (await http.get("/v1/runs")).json()["items"] == []
    assert len(world.simulator.sent) == sent


@every_door
async def test_the_budget_that_ends_a_run_is_named_with_the_time_it_starts_again(
    world: World, tenant: httpx.AsyncClient, door: str
) -> None:
    limit = {"scope": "account", "window": "month", "tokens": 100, "mode": "hard"}
    budget = (await tenant.put("/v1/budgets/team-7", json=limit)).raise_for_status().json()
    world.simulator.responder = named(
        MESSAGES, in_turn(Reply([a_mail("bob")], usage=CACHED), Reply([Text("Done.")]))
    )

    answer = await DOORS[door](tenant, GRAPH, "Write to Bob.")

    await ended(tenant)
    shown = [answer.text]
    if door in LATER:
        shown.append(await LATER[door](tenant, answer))
    assert "team-7" in shown[-1], shown
    assert budget["resetsAt"] in shown[-1], shown


async def test_a_response_has_ended_when_its_cancellation_is_answered(
    world: World, tenant: httpx.AsyncClient
) -> None:
    hold = Hold(index=2)
    world.simulator.responder = lambda _: Reply([Text(WORDS)], hold=hold)
    begun = (await openai(RESPONSES, background=True)(tenant, GRAPH, "hi")).json()
    async with asyncio.timeout(PATIENCE_S):
        await hold.reached.wait()

    answers = [(await tenant.post(f"{RESPONSES}/{begun['id']}/cancel")).json() for _ in range(2)]

    assert [answer["status"] for answer in answers] == ["cancelled"] * 2
    assert answers[0] == (await tenant.get(f"{RESPONSES}/{begun['id']}")).json()


async def test_an_unknown_role_is_named_before_a_run_begins(world: World) -> None:
    key = await a_key(world)
    caller, generator = await world.services.accounts.authenticate(key), world.services.generator
    assert isinstance(generator, Generator)

    with pytest.raises(UnknownModel, match="there is no role 'poet'; known are"):
        await generator.start(caller, GenerateTextRequest.of(prompt="Rain.", role="poet"), request_id=None)

    async with a_client(world.url, key) as http:
        assert (await http.get("/v1/runs")).json()["items"] == []


async def of_our_own(http: httpx.AsyncClient) -> tuple[list[str], Rests]:
    events = blocks(await stream(http, GRAPH, "hi"))
    path = f"/v1/runs/{await ended(http)}/events"
    return events, [partial(http.get, path, params={"after": place}) for place in range(len(events))]


async def of_ag_ui(http: httpx.AsyncClient) -> tuple[list[str], Rests]:
    message = {"id": "u", "role": "user", "content": "hi"}
    thread = {"threadId": str(uuid4()), "runId": str(uuid4()), "messages": [message]}
    again = partial(http.post, f"/v1/ag-ui/{MESSAGES}:{GRAPH}", json=thread)
    # Its clients have no place to name: they get all of it again.
    return blocks(await again()), [again]


async def of_responses(http: httpx.AsyncClient) -> tuple[list[str], Rests]:
    events = blocks(await openai(RESPONSES, stream=True)(http, GRAPH, "hi"))
    path = f"{RESPONSES}/resp_{await ended(http)}"
    rests = [{"stream": True, "starting_after": place - 1} for place in range(len(events))]
    return events, [partial(http.get, path, params=rest) for rest in rests]


async def of_mcp(http: httpx.AsyncClient) -> tuple[list[str], Rests]:
    session = (await http.post("/mcp", json=beginning())).headers["mcp-session-id"]
    called = in_session(session, a_call(f"{MESSAGES}__{GRAPH}", "hi", **TOKEN))
    whole = await http.post("/mcp", **called)
    names = [line.removeprefix("id: ") for line in whole.text.splitlines() if line.startswith("id: ")]
    rests = [
        partial(http.get, "/mcp", headers={**called["headers"], "Last-Event-ID": name}) for name in names
    ]
    # The first event has no data.
    return blocks(whole), rests[:-1]


async def of_managed_agents(http: httpx.AsyncClient) -> tuple[list[str], Rests]:
    path = f"{MANAGED}/{(await managed(http, GRAPH, 'hi')).json()['id']}/events"
    await ended(http)
    found = await until_shown(
        http, path, lambda found: any(each["type"] == "session.usage" for each in found["data"])
    )
    events = found["data"]
    pages: list[dict[str, str]] = [{}, *({"page": each["id"]} for each in events[:-1])]
    return [json.dumps(each) for each in events], [partial(http.get, path, params=page) for page in pages]


READERS = (of_our_own, of_ag_ui, of_responses, of_mcp, of_managed_agents)
"""What one has read over a wire, and how one reads again that has received nothing, one event, two …"""


@pytest.mark.parametrize("reader", READERS)
async def test_a_reader_that_comes_back_gets_the_rest_of_one_run(
    world: World, tenant: httpx.AsyncClient, reader: Reader
) -> None:
    before = len(world.simulator.sent)
    world.simulator.responder = lambda _: Reply([Text(WORDS)])

    events, rests = await reader(tenant)

    assert len(events) >= 3
    for place, rest in enumerate(rests):
        assert blocks(await rest()) == events[place:], place
    receipts = (await tenant.get("/v1/receipts")).json()["items"]
    assert bill(receipts) == wire(world.simulator.sent[before:])
    assert len(receipts) == 1


def blocks(answer: httpx.Response) -> list[str]:
    """The events of a stream that have data, or of a list."""
    assert answer.status_code == 200, answer.text
    if answer.headers["content-type"] == "application/json":
        return [json.dumps(each) for each in answer.json()["data"]]
    return [each.removeprefix("retry: 2000\n") for each in answer.text.split("\n\n") if "data: {" in each]
