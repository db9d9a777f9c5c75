"""Clients that begin and do not go on, and those that never stop to read."""

import asyncio
import resource
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.servers import a_server
from tests.e2e.stories import a_request
from tests.patience import PATIENCE_S
from tests.security.conftest import OpenTarget
from tests.security.server import Target

pytestmark = pytest.mark.long

FILES = 1024
HALF_SENT = 1100
FEW_FILES = ["prlimit", f"--nofile={FILES}:{FILES}"]


async def test_half_sent_requests_do_not_block_others(
    tmp_path: Path, database_url: str, model_url: str
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= 2 * HALF_SENT, f"this test needs more open files than {soft}; {hard} are allowed"
    serving = a_server(tmp_path, model_url, within=FEW_FILES, DATABASE_URL=database_url)
    async with serving as (process, http):
        target = Target(str(http.base_url), process, database_url, tmp_path)
        held = [await _half_sent(target) for _ in range(HALF_SENT)]
        began = asyncio.get_running_loop().time()
        # On a new connection: the one the client has had is the first that makes room.
        async with target.client() as newcomer:
            answers = [await newcomer.get(path) for path in ("/healthz", "/v1/runs", "/v1/graphs")]
        took_s = asyncio.get_running_loop().time() - began
        cut = sum([await _is_cut(reader) for reader, _ in held])
        for _, writer in held:
            writer.transport.abort()

    assert [answer.status_code for answer in answers] == [200] * 3
    assert took_s < PATIENCE_S / 2
    # Those for which there was no room at once, the others when they had had their time.
    assert cut == HALF_SENT


async def _half_sent(target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await target.connect()
    writer.write(b"GET /healthz HTTP/1.1\r\nHo")
    return reader, writer


async def _is_cut(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await reader.read()
    except ConnectionError:
        return True
    return reader.at_eof()


async def test_readers_are_limited_by_run_and_by_key(open_target: OpenTarget, model_url: str) -> None:
    settings = {"RUNTALLY_MAX_READERS_PER_KEY": "3", "RUNTALLY_MAX_READERS_PER_RUN": "2"}
    async with open_target(model_url, **settings) as target:
        first, second = await target.new_key("readers"), await target.new_key("readers")
        async with target.client(first) as http, target.client(second) as other, AsyncExitStack() as open_now:
            run = (await http.post("/v1/runs", json=a_request("hang", runId="one"))).json()["runId"]
            events = f"/v1/runs/{run}/events"
            for _ in range(2):
                await open_now.enter_async_context(http.stream("GET", events))
            of_the_run = [
                await other.get(events),
                await http.post("/v1/runs/wait", json=a_request("hang", runId="one")),
                await http.post("/v1/runs/stream", json=a_request("hang", runId="one")),
            ]
            await open_now.enter_async_context(
                http.stream("POST", "/v1/runs/stream", json=a_request("hang", runId="two"))
            )
            of_the_key = [
                await http.post("/v1/runs/stream", json=a_request("hang", runId="three")),
                await http.post("/v1/generate/text", json={"prompt": "hang", "runId": "three"}),
                await http.post("/v1/ag-ui/claude_agents:assistant", json=_for_ag_ui("three")),
                await http.post("/v1/ai-sdk/claude_agents:assistant/chat", json=_for_ai_sdk("three")),
            ]
            started = [each["runId"] for each in (await http.get("/v1/runs")).json()["items"]]
            others = await open_now.enter_async_context(other.stream("GET", "/v1/runs/two/events"))
            for run_id in started:
                await http.post(f"/v1/runs/{run_id}/cancel")

    for refused in (*of_the_run, *of_the_key):
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_readers")
        assert int(refused.headers["retry-after"]) > 0
    assert others.status_code == 200
    assert sorted(started) == ["one", "two"]


def _for_ag_ui(run_id: str) -> dict[str, Any]:
    messages = [{"id": "1", "role": "user", "content": "hang"}]
    return {
        "threadId": "thread",
        "runId": run_id,
        "messages": messages,
        "state": {},
        "tools": [],
        "context": [],
        "forwardedProps": {},
    }


def _for_ai_sdk(chat: str) -> dict[str, Any]:
    message = {"id": "1", "role": "user", "parts": [{"type": "text", "text": "hang"}]}
    return {"id": chat, "messages": [message], "trigger": "submit-message"}
