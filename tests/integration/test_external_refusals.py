"""Calls of clients' own agents that are refused: by the key, the request, or the credit."""

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any

import httpx
import pytest

from app.runs.external.service import MOST_CALLS
from app.simulator.script import ApiRequest, Hold, Reply, Text
from tests.e2e.stories import World, WorldOf, a_client
from tests.e2e.the_bill import bill, wire
from tests.integration import external_calls
from tests.patience import PATIENCE_S

INVALID = "invalid_request_error"
NO_CALLS = {
    b"[]": (400, INVALID, "The body is not a request of the Messages API."),
    b'{"max_tokens": 1}': (400, INVALID, "model: Field required"),
    b'{"model": "sonnet"}': (404, "not_found_error", "model: 'sonnet' is not the id of a model"),
    b'{"model": "claude-sonnet-5-5", "model": "claude-opus-5-5"}': (
        400,
        INVALID,
        "model: must be given once",
    ),
}


class TestWhatIsRefused:
    """Nothing of it reaches the provider."""

    async def test_what_is_no_call(self, world_of: WorldOf) -> None:
        world = await world_of(lambda _: Reply([Text("ok")]))
        headers = {"content-type": "application/json"}

        for body, refused in NO_CALLS.items():
            for path in (external_calls.MESSAGES, f"{external_calls.MESSAGES}/count_tokens"):
                answer = await world.http.post(path, content=body, headers=headers)
                assert external_calls.error_of(answer) == refused, path
        elsewhere = await world.http.get("/anthropic/v1/files")
        run = {"graphId": "external:anthropic", "messages": [{"role": "user", "content": "hi"}]}
        as_graph = await world.http.post("/v1/runs", json=run)

        assert external_calls.error_of(elsewhere)[:2] == (404, "not_found_error")
        assert (as_graph.status_code, as_graph.json()["code"]) == (404, "graph_not_found")
        assert world.simulator.requests == []
        assert await external_calls.sessions(world.http) == []

    async def test_a_huge_body(self, world_of: WorldOf) -> None:
        world = await world_of(lambda _: Reply([Text("ok")]), RUNTALLY_MAX_BODY_BYTES=10_000)

        answer = await external_calls.call(world.http, system="x" * 10_000)

        assert external_calls.error_of(answer)[:2] == (413, "request_too_large")
        assert world.simulator.requests == []

    async def test_a_key_that_may_not(self, world_of: WorldOf) -> None:
        world = await world_of(lambda _: Reply([Text("ok")]))
        fallback = {"fallbacks": [{"model": "claude-opus-5-5"}]}
        advisor = {"tools": [{"type": "advisor_20260301", "name": "a", "model": "claude-opus-5-5"}]}
        only = {"models": ["claude-sonnet-*"]}
        cases: list[tuple[str, dict[str, Any], int]] = [
            ("rt_" + "x" * 43, {}, 401),
            (await external_calls.new_key(world, "a", ["runs:write", "admin"]), {}, 403),
            (await external_calls.new_key(world, "a", graphs=["claude_agents:*"]), {}, 403),
            (await external_calls.new_key(world, "a", graphs=["external:*"]), {}, 200),
            (await external_calls.new_key(world, "a", **only), {"model": "claude-opus-5-5"}, 403),
            (await external_calls.new_key(world, "a", **only), fallback, 403),
            (await external_calls.new_key(world, "a", **only), advisor, 403),
            (await external_calls.new_key(world, "a", **only), {}, 200),
        ]
        answers = []
        for key, fields, _ in cases:
            async with a_client(world.url, key) as http:
                answers.append(await external_calls.call(http, **fields))
        kinds = {401: "authentication_error", 403: "permission_error"}

        assert [answer.status_code for answer in answers] == [status for _, _, status in cases]
        refused = [external_calls.error_of(answer) for answer in answers if answer.status_code != 200]
        assert [kind for _, kind, _ in refused] == [kinds[status] for status, _, _ in refused]
        assert len(world.simulator.requests) == 2


async def test_a_session_makes_so_many_calls_at_once(world_of: WorldOf) -> None:
    hold = Hold(0)
    world = await world_of(lambda _: Reply([Text("ok")], hold=hold))
    calls = [asyncio.create_task(external_calls.call(world.http, stream=True)) for _ in range(MOST_CALLS + 1)]

    refused, _ = await asyncio.wait(calls, timeout=PATIENCE_S, return_when=asyncio.FIRST_COMPLETED)
    hold.until.set()
    answers = await asyncio.gather(*calls)

    assert [external_calls.error_of(task.result())[:2] for task in refused] == [(429, "rate_limit_error")]
    assert [answer.status_code for answer in answers].count(200) == MOST_CALLS


class TestCredit:
    """A call is made only if the most that it may cost is there."""

    @pytest.mark.parametrize("limited", [external_calls.prepay, external_calls.limit])
    async def test_no_limit_is_passed_with_fifty_sessions_at_once(
        self, world_of: WorldOf, limited: Callable[[World, str], Awaitable[None]]
    ) -> None:
        def respond(request: ApiRequest) -> Reply:
            # As much as it may.
            return Reply([Text("a")], final_usage={"output_tokens": request.body["max_tokens"]})

        world = await world_of(respond)
        await limited(world, "0.5")
        calls = [external_calls.call(world.http, f"s-{number}", max_tokens=10_000) for number in range(50)]
        answers = await asyncio.gather(*calls)
        status = 200
        while status != 402:
            await external_calls.settled(world, sessions=51)
            status = (await external_calls.call(world.http, max_tokens=10_000)).status_code
        async with asyncio.timeout(PATIENCE_S):
            while len(receipts := await external_calls.all_receipts(world)) < len(world.simulator.sent):
                await asyncio.sleep(0.02)
        (cost,) = {Decimal(receipt["costUsd"]) for receipt in receipts}

        # 503: the machine is too busy to check the credit of fifty at once.
        assert {answer.status_code for answer in answers} <= {200, 402, 503}
        assert bill(receipts) == wire(world.simulator.sent)
        assert len(receipts) == Decimal("0.5") // (cost + Decimal("0.001"))

    async def test_a_refusal_says_what_is_left_and_when_there_is_more(self, world_of: WorldOf) -> None:
        world = await world_of(lambda _: Reply([Text("ok")]))
        await external_calls.limit(world, "0.01")

        refused = await external_calls.call(world.http, max_tokens=10_000)
        allowed = await external_calls.call(world.http)

        status, kind, message = external_calls.error_of(refused)
        assert (status, kind) == (402, "billing_error")
        assert message.startswith("This call may cost more than what is left of the budget house; one with")
        assert message.endswith("-01T00:00:00Z.")
        assert allowed.status_code == 200

    @pytest.mark.parametrize("limited", [external_calls.prepay, external_calls.limit])
    async def test_nothing_is_left_of_a_session_whose_first_call_is_refused(
        self, world_of: WorldOf, limited: Callable[[World, str], Awaitable[None]]
    ) -> None:
        world = await world_of(lambda _: Reply([Text("ok")]))
        await limited(world, "0.01")

        async def decided(session: str, **fields: Any) -> httpx.Response:
            """The answer, once the machine is not too busy to check the credit."""
            while (answer := await external_calls.call(world.http, session, **fields)).status_code == 503:
                pass
            return answer

        refused = await asyncio.gather(*(decided(session, max_tokens=10_000) for session in ("a", "a", "b")))
        left = await external_calls.sessions(world.http)
        await external_calls.settled(world, sessions=0)
        allowed = await decided("a")
        again = await decided("a", max_tokens=10_000)

        assert left == []
        assert [external_calls.error_of(answer)[:2] for answer in [*refused, again]] == [
            (402, "billing_error")
        ] * 4
        assert allowed.status_code == 200
        (session,) = await external_calls.sessions(world.http)
        assert session["metadata"] == {"session": "a"}
        assert len(await external_calls.billed(world, session["runId"], 1)) == 1

    async def test_an_idle_session_reserves_nothing(self, world_of: WorldOf) -> None:
        world = await world_of(lambda _: Reply([Text("ok")]))
        await external_calls.prepay(world, "1")
        assert (await external_calls.call(world.http, max_tokens=10_000)).status_code == 200
        await external_calls.settled(world, sessions=1)

        assert [run["status"] for run in await external_calls.sessions(world.http)] == ["running"]
