"""What one client can make a server keep in memory, multiplied."""

import asyncio
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.simulator.script import Hold, Reply, Text, in_turn
from app.simulator.server import Simulator
from tests.e2e.servers import OF_ITS_OWN, a_server
from tests.e2e.stories import ASSISTANT, a_request
from tests.media import large_image
from tests.security.server import Target

pytestmark = pytest.mark.long

MB = 2**20
IMAGE = large_image(6 * MB)
"""8 MB of text, which nothing compresses."""
ONE_RUN = {"RUNTALLY_MAX_CONCURRENT_RUNS": "1"}


def with_an_image(**fields: Any) -> dict[str, Any]:
    """A run's request of 8 MB."""
    content = [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "mediaType": "image/png", "data": IMAGE},
    ]
    return {"graphId": ASSISTANT, "messages": [{"role": "user", "content": content}], **fields}


def resident(server: psutil.Process) -> int:
    """The server's own memory."""
    return int(server.memory_info().rss)


async def test_large_requests_wait_in_the_database_and_not_in_memory(
    tmp_path: Path, database_url: str
) -> None:
    hold = Hold(index=4)
    answers = in_turn(Reply([Text("one two three")], hold=hold))
    async with (
        Simulator(answers) as simulator,
        a_server(tmp_path, simulator.url, within=OF_ITS_OWN, DATABASE_URL=database_url, **ONE_RUN) as (
            server,
            http,
        ),
    ):
        await http.post("/v1/runs", json=a_request())
        await hold.reached.wait()
        await http.post("/v1/runs", json=with_an_image(runId="big-0"))
        before = resident(server)

        for number in range(1, 7):
            accepted = await http.post("/v1/runs", json=with_an_image(runId=f"big-{number}"))
            assert accepted.status_code == 202, accepted.text
        grown = resident(server) - before
        for number in range(7):
            await http.post(f"/v1/runs/big-{number}/cancel")
        hold.until.set()

    # Six requests of 8 MB each.
    assert grown < 24 * MB, f"{grown / MB:.0f} MB"


async def test_messages_that_a_hanging_run_does_not_hear_are_limited_in_number_and_size(
    target: Target,
) -> None:
    async with target.client(await target.new_key("talkers")) as http:
        for run_id in ("many", "large"):
            await http.post("/v1/runs", json=a_request("hang", runId=run_id))
        before = target.rss_bytes
        small = [http.post("/v1/runs/many/messages", json={"content": "and?"}) for _ in range(70)]
        answers = await asyncio.gather(*small)
        large = {"content": with_an_image()["messages"][0]["content"]}
        for _ in range(4):
            answers.append(await http.post("/v1/runs/large/messages", json=large))
        grown = target.rss_bytes - before
        for run_id in ("many", "large"):
            await http.post(f"/v1/runs/{run_id}/cancel")

    statuses = [answer.status_code for answer in answers]
    refused = [answer for answer in answers if answer.status_code != 202]
    assert (statuses[:70].count(202), statuses[70:].count(202)) == (64, 2)
    assert {(answer.status_code, answer.json()["code"]) for answer in refused} == {(429, "messages_waiting")}
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
    assert grown < 160 * MB, f"{grown / MB:.0f} MB"


@pytest.mark.parametrize(
    "path", ["responses/resp_big", "responses/resp_big/input_items", "conversations/chat/items"]
)
async def test_many_readers_of_a_large_request_read_it_one_after_the_other(
    tmp_path: Path, database_url: str, path: str
) -> None:
    async with (
        Simulator(in_turn(Reply([Text("A bird.")]))) as simulator,
        a_server(tmp_path, simulator.url, within=OF_ITS_OWN, DATABASE_URL=database_url) as (server, http),
    ):
        request = with_an_image(runId="big", stateKey="chat") | {"graphId": "messages:assistant"}
        content = request["messages"][0]["content"]
        content.append(content[-1])
        await http.post("/v1/runs/wait", json=request)
        await http.get(f"/openai/v1/{path}")
        most = before = resident(server)
        readers = asyncio.gather(*(http.get(f"/openai/v1/{path}") for _ in range(30)))
        while not readers.done():
            most = max(most, resident(server))
            await asyncio.sleep(0.02)

    assert {answer.status_code for answer in await readers} == {200}
    # One needs 70 MB.
    assert most - before < 110 * MB, f"{(most - before) / MB:.0f} MB"
