"""Clients' own agents call the model through this server: a session is a run, and its calls are billed."""

import asyncio
import json
from dataclasses import replace

import httpx
import pytest
from anthropic import APIStatusError, AsyncAnthropic
from anthropic.types import Message, MetadataParam
from structlog.testing import capture_logs

from app.executors.external.executor import EXECUTOR_TYPE
from app.runs.external.starting import GRAPH
from app.simulator.script import ApiRequest, Hold, HttpError, Reply, Text, in_turn
from tests.e2e.stories import KEY, PROVIDER_KEY, WorldOf, a_client, until
from tests.e2e.the_bill import bill, wire
from tests.integration.external_calls import (
    EXTERNAL,
    HELLO,
    MESSAGES,
    MODEL,
    billed,
    call,
    error_of,
    new_key,
    official,
    sessions,
)
from tests.integration.gateway_seam import FIRST_DELTA
from tests.patience import PATIENCE_S


async def test_the_official_client_needs_nothing_but_base_url_and_key(world_of: WorldOf) -> None:
    world = await world_of(in_turn(Reply([Text("Hello there")]), Reply([Text("Hello again")])))
    user = MetadataParam(user_id="ann")
    async with official(world) as client:
        whole = await client.messages.create(**HELLO, metadata=user)
        async with client.messages.stream(**HELLO, metadata=user) as stream:
            streamed = await stream.get_final_message()
        count = await client.messages.count_tokens(model=MODEL, messages=HELLO["messages"])
        models = [model.id async for model in client.models.list(limit=1)]
    async with AsyncAnthropic(base_url=f"{world.url}/anthropic", auth_token=KEY) as client:
        with_bearer = await client.models.list()
    (run,) = await sessions(world.http)
    receipts = await billed(world, run["runId"], 2)

    assert [text_of(whole), text_of(streamed)] == ["Hello there", "Hello again"]
    assert count.input_tokens == 8
    assert models == [model.id for model in with_bearer.data]
    assert MODEL in models
    assert (run["graphId"], run["status"], run["endUser"]) == (GRAPH.id, "running", "ann")
    assert bill(receipts) == wire(world.simulator.sent)
    of_run = {(r["executorType"], r["origin"], r["endUser"], r["runId"]) for r in receipts}
    assert of_run == {(EXECUTOR_TYPE, "assistant", "ann", run["runId"])}
    assert [r["sourceReference"] for r in receipts] == [
        f"{run['runId']}/0/{sent.message_id}" for sent in world.simulator.sent
    ]


def text_of(message: Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


async def test_the_provider_gets_its_own_key_and_no_other(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("ok")]))
    async with official(world) as client:
        await client.beta.messages.create(
            **HELLO, betas=["context-1m-2025-08-07"], extra_body={"unheard_of": {"a": [1, None]}}
        )
    (request,) = world.simulator.requests

    assert request.headers["x-api-key"] == PROVIDER_KEY
    assert request.headers["anthropic-beta"] == "context-1m-2025-08-07"
    assert request.body == {**HELLO, "unheard_of": {"a": [1, None]}}
    assert KEY not in json.dumps(request.headers)


async def test_each_session_is_a_run_and_an_account_sees_its_own(world_of: WorldOf) -> None:
    world = await world_of(lambda request: Reply([Text(request.last_text)]))
    keys = [await new_key(world, account) for account in ("one", "one", "other")]
    clients = [a_client(world.url, key) for key in keys]
    calls = [call(http, session) for http in clients for session in ("s-1", "s-2", "s-1")]

    answers = await asyncio.gather(*calls)
    one, same, other = [await sessions(http) for http in clients]
    foreign = [await clients[2].get(f"/v1/runs/{run['runId']}") for run in one]
    for http in clients:
        await http.aclose()

    assert {answer.status_code for answer in answers} == {200}
    assert [run["runId"] for run in one] == [run["runId"] for run in same]
    assert sorted(run["metadata"]["session"] for run in one) == ["s-1", "s-1", "s-2", "s-2"]
    assert sorted(run["metadata"]["session"] for run in other) == ["s-1", "s-2"]
    assert {answer.status_code for answer in foreign} == {404}


async def test_a_session_ends_when_it_is_not_used_and_the_next_call_begins_another(world_of: WorldOf) -> None:
    hold = Hold(FIRST_DELTA)
    answers = in_turn(Reply([Text("one two three")], hold=hold), Reply([Text("again")]))
    world = await world_of(answers, RUNTALLY_EXTERNAL_IDLE_S=0.1)
    first = asyncio.create_task(call(world.http, stream=True))
    await hold.reached.wait()
    # Longer than it may be idle; it is not.
    await until(lambda: world.services.dispatcher.is_first)
    (run,) = await sessions(world.http)
    hold.until.set()
    assert (await first).status_code == 200
    ended = await world.ended(run["runId"])
    await call(world.http)
    _, second = await sessions(world.http)
    await world.ended(second["runId"])
    events = await world.events(run["runId"])

    assert (run["status"], ended["status"]) == ("running", "succeeded")
    assert ended["final"]["usage"] == {"promptTokens": 10, "completionTokens": 20}
    assert second["runId"] != run["runId"]
    assert [event.type for event in events] == ["run_started", "assistant_final", "done"]
    assert bill([*await world.receipts(run["runId"]), *await world.receipts(second["runId"])]) == wire(
        world.simulator.sent
    )


async def test_a_cancelled_session_breaks_its_calls_off(world_of: WorldOf) -> None:
    hold = Hold(FIRST_DELTA + 2)
    world = await world_of(in_turn(Reply([Text("one two three four")], hold=hold), Reply([Text("again")])))
    with capture_logs() as logs:
        async with world.http.stream("POST", MESSAGES, json={**HELLO, "stream": True}) as answer:
            chunks = answer.aiter_bytes()
            await anext(chunks)
            (run,) = await sessions(world.http)
            await world.http.post(f"/v1/runs/{run['runId']}/cancel")
            with pytest.raises(httpx.RemoteProtocolError):
                async for _ in chunks:
                    pass
        hold.until.set()
        ended = await world.ended(run["runId"])
    again = await world.http.post(MESSAGES, json=HELLO)

    assert ended["final"]["error"] == "aborted"
    assert again.status_code == 200
    assert len(await sessions(world.http)) == 2
    (receipt,) = await world.receipts(run["runId"])
    assert receipt["basis"] == "partial"
    assert [each for each in logs if each["log_level"] == "error"] == []


@pytest.mark.parametrize("end", ["key", "account"])
async def test_a_key_that_ends_cuts_its_calls_off(world_of: WorldOf, end: str) -> None:
    hold, asked, until = Hold(FIRST_DELTA + 2), asyncio.Event(), asyncio.Event()

    async def model(request: ApiRequest) -> Reply:
        if request.body.get("stream"):
            return Reply([Text("one two three four")], hold=hold)
        asked.set()
        await until.wait()
        return Reply([Text("too late")])

    world = await world_of(model)
    record, key = await world.services.accounts.create_key("acme", EXTERNAL)
    async with (
        a_client(world.url, key) as http,
        a_client(world.url, await new_key(world, "acme")) as other,
        http.stream("POST", MESSAGES, json={**HELLO, "stream": True}) as answer,
    ):
        chunks = answer.aiter_bytes()
        await anext(chunks)
        unanswered = asyncio.create_task(call(http, "s-2"))
        async with asyncio.timeout(PATIENCE_S):
            await asked.wait()
        if end == "key":
            await world.http.delete(f"/v1/keys/{record.id}")
        else:
            await world.http.patch("/v1/accounts/acme", json={"suspended": True})
        with pytest.raises(httpx.RemoteProtocolError):
            async for _ in chunks:
                pass
        refused = await unanswered
        until.set()
        hold.until.set()
        await world.http.patch("/v1/accounts/acme", json={"suspended": False})
        of_runs = [await billed(replace(world, http=other), run["runId"], 1) for run in await sessions(other)]
    receipts = bill([receipt for of_run in of_runs for receipt in of_run])

    assert error_of(refused)[:2] == (401, "authentication_error")
    assert receipts.pop("unanswered-1")[1] == "partial"
    assert receipts == wire(world.simulator.sent[:1])


async def test_what_a_client_left_unread_is_billed_as_far_as_it_was_sent(world_of: WorldOf) -> None:
    hold = Hold(FIRST_DELTA + 3)
    world = await world_of(in_turn(Reply([Text("one two three four five")], hold=hold)))
    async with world.http.stream("POST", MESSAGES, json={**HELLO, "stream": True}) as answer:
        text = ""
        async for line in answer.aiter_lines():
            text += line
            if "three" in text:
                break
    (run,) = await sessions(world.http)
    receipts = await billed(world, run["runId"], 1)
    (sent,) = world.simulator.sent

    assert sent.disconnected
    assert bill(receipts) == wire([sent])


async def test_a_slow_reader_gets_all_of_it(world_of: WorldOf) -> None:
    words = " ".join(["word"] * 20_000)
    world = await world_of(lambda _: Reply([Text(words)]))
    body = json.dumps({**HELLO, "stream": True}).encode()
    host, _, port = world.url.removeprefix("http://").rpartition(":")
    # A small window: most of the answer has to wait for its reader.
    reader, writer = await asyncio.open_connection(host, int(port), limit=1024)
    head = (
        f"POST {MESSAGES} HTTP/1.1\r\nhost: x\r\nx-api-key: {KEY}\r\ncontent-type: application/json\r\n"
        f"connection: close\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    writer.write(head.encode() + body)
    received = bytearray()
    async with asyncio.timeout(PATIENCE_S):
        while piece := await reader.read(1024):
            received += piece
            await asyncio.sleep(0)
    writer.close()
    (run,) = await sessions(world.http)

    assert received.count(b"text_delta") == 20_000
    assert bill(await billed(world, run["runId"], 1)) == wire(world.simulator.sent)


FAILURES = [
    (HttpError(529, "overloaded_error"), 529, "overloaded_error"),
    (HttpError(429, "rate_limit_error", headers={"retry-after": "3"}), 429, "rate_limit_error"),
    (HttpError(400, "invalid_request_error", "prompt is too long"), 400, "invalid_request_error"),
    (HttpError(401, "authentication_error"), 502, "api_error"),
    (HttpError(403, "permission_error"), 502, "api_error"),
]


async def test_a_failure_of_the_provider_costs_nothing_and_stops_no_later_call(world_of: WorldOf) -> None:
    world = await world_of(in_turn())
    async with official(world) as client:
        for failure, status, kind in FAILURES:
            world.simulator.responder = in_turn(failure, Reply([Text("ok")]))
            with pytest.raises(APIStatusError) as failed:
                await client.messages.create(**HELLO)
            after = await client.messages.create(**HELLO)

            error = failed.value.body["error"]  # type: ignore[index]
            assert (failed.value.status_code, error["type"]) == (status, kind)
            assert "secret" not in str(failed.value.body)
            assert text_of(after) == "ok"
    (run,) = await sessions(world.http)

    assert bill(await billed(world, run["runId"], len(FAILURES))) == wire(world.simulator.sent)


async def test_a_session_that_is_not_used_makes_room_for_another(world_of: WorldOf) -> None:
    hold = Hold(FIRST_DELTA)
    answers = in_turn(Reply([Text("1")]), Reply([Text("2")], hold=hold), Reply([Text("3")]))
    world = await world_of(answers)
    async with a_client(world.url, await new_key(world, "a", concurrent_runs=1)) as http:
        await call(http, "s-1")
        second = asyncio.create_task(call(http, "s-2", stream=True))
        await hold.reached.wait()
        refused = await call(http, "s-3")
        hold.until.set()
        await second
        third = await call(http, "s-3")
        runs = await sessions(http)

    assert error_of(refused)[:2] == (429, "rate_limit_error")
    assert third.status_code == 200
    assert [run["status"] for run in runs] == ["succeeded", "succeeded", "running"]


async def test_runs_do_not_wait_for_sessions(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("ok")]), RUNTALLY_MAX_CONCURRENT_RUNS=1)
    for number in range(3):
        assert (await call(world.http, f"s-{number}")).status_code == 200
    final = await world.http.post(
        "/v1/runs/wait",
        json={"graphId": "messages:assistant", "messages": [{"role": "user", "content": "hi"}]},
    )

    assert final.json()["ok"]
    assert [run["status"] for run in await sessions(world.http)] == ["running"] * 3 + ["succeeded"]
