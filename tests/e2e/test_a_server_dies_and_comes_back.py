import asyncio
import json
import resource
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import httpx
import httpx_sse
import pytest
import pytest_asyncio

from app.gateway.answer_usage import PROGRESS_TOKENS
from app.simulator.script import ApiRequest, Hold, Reply, Text, ToolUse, in_turn
from app.simulator.server import Simulator
from tests.conftest import in_memory
from tests.e2e.office import WORKER, settings
from tests.e2e.preloaded import run_preloaded
from tests.e2e.servers import ROOT, a_server, an_environment
from tests.e2e.stories import CLOCK, a_client, a_request, until
from tests.e2e.test_the_commands import command
from tests.e2e.test_the_doctor import doctor
from tests.integration.gateway_seam import FIRST_DELTA
from tests.patience import PATIENCE_S

WORDS = 300


async def words_read(http: httpx.AsyncClient, run_id: str, words: int) -> int:
    """Read a run's text until so many words have come; returns how many did."""
    text = ""
    async with httpx_sse.aconnect_sse(http, "GET", f"/v1/runs/{run_id}/events") as source:
        async for event in source.aiter_sse():
            text += event.json()["delta"] if event.event == "text_delta" else ""
            if len(text.split()) >= words:
                return len(text.split())
    raise AssertionError(text)


async def test_a_killed_server_ends_its_runs_or_goes_on_with_them_when_it_is_back(
    migrated_path: Path,
) -> None:
    hold, kept_hold = Hold(index=FIRST_DELTA + WORDS - 100), Hold(index=5)

    def respond(request: ApiRequest) -> Reply:
        if request.last_text == "end":
            return Reply([Text("go " * WORDS)], hold=hold)
        if len(simulator.requests) <= 2:
            return Reply([Text("one two three four")], hold=kept_hold)
        return Reply([Text("back")])

    graphs = {name: str(value) for name, value in settings(migrated_path).items()}
    async with Simulator(respond) as simulator:
        async with a_server(migrated_path, simulator.url, **graphs) as (server, http):
            await http.post("/v1/runs", json=a_request("end", runId="killed-1"))
            body = a_request("count", runId="kept", stateKey="chat-1", graphId=WORKER)
            await http.post("/v1/runs", json=body)
            shown = await words_read(http, "killed-1", WORDS - 100)
            await words_read(http, "kept", 1)
            family = server.children(recursive=True)
            server.kill()
            await until(lambda: not any(child.is_running() for child in family))
        hold.until.set()

        async with a_server(migrated_path, simulator.url, **graphs) as (_, http):
            await assert_continued(http)
            whole = (await http.get("/v1/runs/killed-1/events")).text
            rest = (await http.get("/v1/runs/killed-1/events", params={"after": 7})).text
            final = (await http.get("/v1/runs/killed-1")).json()["final"]
            (receipt,) = (await http.get("/v1/runs/killed-1/receipts")).json()["items"]
            again = (await http.post("/v1/runs/wait", json=a_request())).json()
    kept_hold.until.set()

    assert 'id: 1\nevent: error\ndata: {"type":"error","error":"internal","at":' in whole
    assert "id: 999999998\nevent: error\n" in rest
    assert "id: 999999999\nevent: done\n" in rest
    assert (final["error"], final["finishReason"]) == ("internal", "error")
    assert again["content"] == "back"
    assert (receipt["basis"], receipt["outputEstimated"], receipt["inputTokens"]) == ("partial", True, 10)
    assert shown == WORDS - 100 <= receipt["outputTokens"] < shown + PROGRESS_TOKENS
    assert list((migrated_path / "runs").glob("server-*")) == []


async def assert_continued(http: httpx.AsyncClient) -> None:
    """The next attempt of the run that may be tried again: its reader continues, and both are charged."""
    events = (await http.get("/v1/runs/kept/events", params={"after": 5})).text
    run = (await http.get("/v1/runs/kept")).json()
    receipts = (await http.get("/v1/runs/kept/receipts")).json()["items"]

    assert (run["attempt"], run["final"]["content"]) == (1, "back")
    assert "event: run_started" in events
    assert '"attempt":1' in events
    assert [(receipt["attempt"], receipt["basis"]) for receipt in receipts] == [(0, "partial"), (1, "final")]
    assert run["final"]["usage"]["completionTokens"] == sum(r["outputTokens"] for r in receipts)


async def test_a_server_asked_to_stop_lets_its_runs_finish(migrated_path: Path) -> None:
    """And its embedded database stops after it."""
    reply = Reply([Text("one two three four five")], delta_delay_s=0.3)
    async with (
        Simulator(in_turn(reply)) as simulator,
        a_server(migrated_path, simulator.url) as (server, http),
    ):
        await http.post("/v1/runs", json=a_request(runId="drained-1"))
        await until(lambda: bool(simulator.sent))
        async with http.stream("GET", "/v1/runs/drained-1/events") as reader:
            server.send_signal(signal.SIGTERM)
            heard = "".join([text async for text in reader.aiter_text()])
        await asyncio.to_thread(server.wait, PATIENCE_S)

    assert '"finishReason":"stop"' in heard.rpartition("event: done")[2]
    assert not simulator.sent[0].disconnected


class Embedded(NamedTuple):
    """A server with its embedded database: its environment and a client."""

    environment: dict[str, str]
    http: httpx.AsyncClient


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def embedded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Embedded]:
    """For tests that start no run of an account."""
    with in_memory(tmp_path_factory.mktemp("embedded")) as directory:
        model = Simulator(lambda _: Reply([Text("ok")]))
        async with model as simulator, a_server(directory, simulator.url) as (_, http):
            yield Embedded(an_environment(directory, simulator.url), http)


@pytest.mark.asyncio(loop_scope="module")
async def test_a_second_server_on_the_same_directory_is_refused(embedded: Embedded) -> None:
    second = await asyncio.to_thread(
        run_preloaded, ("serve", "--port", "0"), embedded.environment, directory=ROOT
    )

    assert second.returncode == 1
    assert "RUNTALLY_DATA_DIR" in second.stderr
    assert "Traceback" not in second.stderr


async def test_a_full_disk_stops_new_runs_and_loses_nothing(tmp_path: Path, database_url: str) -> None:
    hold = Hold(index=5)
    slow = Reply([Text("one two"), ToolUse(CLOCK)], hold=hold)
    answers = in_turn(slow, Reply([Text("once there is room")]))
    async with (
        Simulator(answers) as simulator,
        a_server(tmp_path, simulator.url, DATABASE_URL=database_url) as (server, http),
    ):
        await http.post("/v1/runs", json=a_request(runId="full-1"))
        async with http.stream("GET", "/v1/runs/full-1/events") as reader:
            async for line in reader.aiter_lines():
                if line == "event: text_delta":
                    break
        # No file may grow any more, the server's log neither.
        before = server.rlimit(resource.RLIMIT_FSIZE)
        server.rlimit(resource.RLIMIT_FSIZE, (1, before[1]))
        hold.until.set()
        final = (await http.post("/v1/runs/wait", json=a_request(runId="full-1"))).json()
        refused = await http.post("/v1/runs", json=a_request())
        ready = await http.get("/readyz")
        receipts = (await http.get("/v1/runs/full-1/receipts")).json()["items"]
        server.rlimit(resource.RLIMIT_FSIZE, before)
        async with asyncio.timeout(PATIENCE_S):
            while (later := await http.post("/v1/runs/wait", json=a_request())).status_code == 503:
                await asyncio.sleep(0.2)

    # What had begun was charged; the call after it was not let through.
    assert (final["error"], final["finishReason"]) == ("database_unavailable", "error")
    assert [(receipt["basis"], receipt["outputTokens"]) for receipt in receipts] == [("final", 20)]
    assert (refused.status_code, refused.json()["code"]) == (503, "journal_unavailable")
    assert "File too large" in refused.json()["detail"]
    assert (ready.status_code, "intake of runs" in ready.json()["detail"]) == (503, True)
    assert later.json()["content"] == "once there is room"


@pytest.mark.asyncio(loop_scope="module")
async def test_the_doctor_works_beside_a_running_server(embedded: Embedded) -> None:
    environment = embedded.environment
    code, printed, _ = await doctor(Path(environment["HOME"]), "--probe", **environment)
    ready = await embedded.http.get("/readyz")
    receipts = (await embedded.http.get("/v1/receipts")).json()["items"]

    assert code == 0, printed
    assert "USD by our prices; no account is charged" in " ".join(printed.split())
    assert (ready.status_code, receipts) == (200, [])
    assert not any(environment[name] in printed for name in ("ANTHROPIC_API_KEY", "RUNTALLY_BOOTSTRAP_KEY"))


@pytest.mark.asyncio(loop_scope="module")
async def test_keys_are_managed_beside_a_running_server(embedded: Embedded) -> None:
    environment, url = embedded.environment, str(embedded.http.base_url)
    created = await keys(environment, "create", "--account", "acme", "--scope", "runs:read", "--json")
    secret, key_id = (json.loads(created)[name] for name in ("key", "id"))
    async with a_client(url, secret) as acme:
        allowed = await acme.get("/v1/runs")
        forbidden = await acme.get("/v1/receipts")
    listed = await keys(environment, "list")
    await keys(environment, "revoke", key_id)
    async with a_client(url, secret) as acme:
        revoked = await acme.get("/v1/runs")

    assert secret.startswith("rt_")
    assert secret not in listed
    assert (allowed.status_code, forbidden.status_code, revoked.status_code) == (200, 403, 401)


async def keys(environment: dict[str, str], *arguments: str) -> str:
    done = await command(Path(environment["HOME"]), "keys", *arguments, **environment)
    assert done.exit_code == 0, done.output
    return done.stdout
