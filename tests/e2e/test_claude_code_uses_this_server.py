"""The real Claude Code, told nothing but our address and a key."""

import asyncio
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path
from typing import Any

import httpx

from app.cli.connections.tools import telemetry_of_claude_code
from app.executors.claude_agent.process.cli import bundled_cli
from app.requests.attribution import KeyLabels
from app.simulator.script import ApiRequest, Hold, HttpError, Reply, Text, ToolUse
from app.simulator.server import Simulator
from tests.e2e.servers import a_server
from tests.e2e.stories import KEY, WorldOf, a_client, until
from tests.e2e.the_bill import bill, wire
from tests.integration.external_calls import HELLO, MESSAGES, SESSION, billed, limit, new_key, sessions
from tests.integration.gateway_seam import FIRST_DELTA
from tests.otlp import an_otlp_receiver
from tests.patience import PATIENCE_S

MODEL = "claude-sonnet-5-5"
SECRET = "the heron flies at dawn"


async def claude(url: str, home: Path, *arguments: str) -> tuple[int | None, str]:
    """Run `claude -p` with the key of a server; its exit status and what a person sees."""
    return await claude_with(
        home, *arguments, ANTHROPIC_BASE_URL=f"{url}/anthropic", ANTHROPIC_AUTH_TOKEN=KEY
    )


async def claude_with(home: Path, *arguments: str, **variables: str) -> tuple[int | None, str]:
    """Run `claude -p` with these variables and nothing else of an environment."""
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        **variables,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
        "NO_PROXY": "127.0.0.1",
    }
    process = await asyncio.create_subprocess_exec(
        *(str(bundled_cli()), "-p", "--model", MODEL, *arguments),
        env=environment,
        cwd=home,
        stdin=DEVNULL,
        stdout=PIPE,
        stderr=PIPE,
    )
    try:
        async with asyncio.timeout(PATIENCE_S):
            shown, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode, shown.decode()


async def test_it_works_with_tools_and_goes_on_in_the_same_session(world_of: WorldOf, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text(SECRET)

    def respond(request: ApiRequest) -> Reply:
        if request.tool_results:
            return Reply([Text("It says: " + str(request.tool_results[0]["content"]))])
        if "again" in request.last_text:
            return Reply([Text("So it does.")])
        return Reply([ToolUse("Read", {"file_path": str(tmp_path / "note.txt")})])

    world = await world_of(respond)
    first = await claude(world.url, tmp_path, "--allowedTools", "Read", "--", "What does note.txt say?")
    second = await claude(world.url, tmp_path, "--continue", "--", "Look again.")
    (run,) = await sessions(world.http)
    receipts = await billed(world, run["runId"], len(world.simulator.sent))
    session = {request.headers[SESSION] for request in world.simulator.requests}

    assert (first[0], second) == (0, (0, "So it does.\n"))
    assert SECRET in first[1]
    assert {run["metadata"]["session"]} == session
    assert run["endUser"] is not None
    assert len(receipts) >= 3
    assert bill(receipts) == wire(world.simulator.sent)


CONTENTS = (
    *("OTEL_LOG_USER_PROMPTS", "OTEL_LOG_TOOL_DETAILS", "OTEL_LOG_TOOL_CONTENT", "OTEL_LOG_RAW_API_BODIES"),
    *("OTEL_LOG_ASSISTANT_RESPONSES", "CLAUDE_CODE_ENHANCED_TELEMETRY_BETA"),
)


async def test_its_telemetry_is_of_the_key_has_no_contents_and_agrees_with_receipts(
    world_of: WorldOf, tmp_path: Path
) -> None:
    (tmp_path / "note.txt").write_text(SECRET)

    def respond(request: ApiRequest) -> Reply:
        if request.tool_results:
            return Reply([Text(f"It says {SECRET}.")])
        return Reply([ToolUse("Read", {"file_path": str(tmp_path / "note.txt")})])

    async with an_otlp_receiver() as otlp:
        world = await world_of(respond, OTEL_EXPORTER_OTLP_ENDPOINT=otlp.url)
        key = await new_key(world, "acme", labels=KeyLabels.of(end_user="anna"))
        status, _ = await claude_with(
            tmp_path,
            *("--allowedTools", "Read", "--", "What does note.txt say?"),
            ANTHROPIC_BASE_URL=f"{world.url}/anthropic",
            ANTHROPIC_AUTH_TOKEN=key,
            **telemetry_of_claude_code(world.url, key),
            **dict.fromkeys(CONTENTS, "1"),
            OTEL_TRACES_EXPORTER="otlp",
            OTEL_RESOURCE_ATTRIBUTES="service.name=runtally,user.email=ceo@acme.example",
        )
        async with a_client(world.url, key) as person:
            (run,) = await sessions(person)
            receipts = await receipts_of(person, run["runId"], len(world.simulator.sent))
        relays = world.services.telemetry.clients.values()
        await until(lambda: all(relay.results["forwarded"] for relay in relays))

    account = {each["runtally.account"] for each in otlp.resources if "runtally.api_key" in each}
    of_clients = [each for each in otlp.resources if each.get("runtally.account") in account]
    called = [each for each in otlp.events if each["event.name"] == "api_request"]
    assert status == 0
    assert len(account) == 1
    assert {(each["service.name"], each["user.id"]) for each in of_clients} == {("claude-code", "anna")}
    assert "claude_code.token.usage" in {name for name, _ in otlp.points}
    assert "claude_code.tool" in {span.name for span in otlp.spans}
    assert SECRET not in repr(otlp)
    assert "note.txt" not in repr(otlp)
    assert "ceo@acme.example" not in repr(otlp)
    assert {run["metadata"]["session"]} == {each["session.id"] for each in otlp.events}
    assert sorted((each["request_id"], each["output_tokens"]) for each in called) == sorted(
        (each["providerRequestId"], each["outputTokens"]) for each in receipts
    )


async def test_it_shows_a_person_why_it_may_not_go_on(world_of: WorldOf, tmp_path: Path) -> None:
    world = await world_of(lambda _: Reply([Text("ok")]))
    await limit(world, "0.01")

    status, shown = await claude(world.url, tmp_path, "--", "hello")

    assert status == 1
    assert shown.startswith("API Error: 402 This call may cost more than what is left of the budget house;")
    assert "It starts again at " in shown
    assert world.simulator.requests == []


async def test_what_the_provider_says_of_a_prompt_reaches_the_person(
    world_of: WorldOf, tmp_path: Path
) -> None:
    refused = HttpError(404, "not_found_error", "model: claude-sonnet-5-5")
    world = await world_of(lambda _: refused)

    status, shown = await claude(world.url, tmp_path, "--", "hello")

    assert status == 1
    assert "claude-sonnet-5-5" in shown
    assert [(await world.receipts(run["runId"])) for run in await sessions(world.http)] == [[]]


async def test_what_a_killed_server_has_passed_on_is_billed_when_it_is_back(migrated_path: Path) -> None:
    words = 300
    hold = Hold(FIRST_DELTA + words - 100)

    def respond(_request: ApiRequest) -> Reply:
        if len(simulator.requests) == 1:
            return Reply([Text("go " * words)], hold=hold)
        return Reply([Text("back")])

    async with Simulator(respond) as simulator:
        async with a_server(migrated_path, simulator.url) as (server, http):
            body = {**HELLO, "max_tokens": 1000, "stream": True}
            read = 0
            async with http.stream("POST", MESSAGES, json=body) as answer:
                async for line in answer.aiter_lines():
                    read += "text_delta" in line and line.startswith("data:")
                    if read == words - 100:
                        break
                family = server.children(recursive=True)
                server.kill()
                await until(lambda: not any(child.is_running() for child in family))
        hold.until.set()
        async with a_server(migrated_path, simulator.url) as (_, http):
            (killed,) = await sessions(http)
            (receipt,) = await receipts_of(http, killed["runId"], 1)
            after = await http.post(MESSAGES, json=HELLO)
            _, next_run = await sessions(http)
            (second,) = await receipts_of(http, next_run["runId"], 1)

    assert (killed["status"], killed["final"]["error"]) == ("failed", "internal")
    assert (receipt["basis"], receipt["outputEstimated"]) == ("partial", True)
    assert read == words - 100 <= receipt["outputTokens"] <= words
    assert after.json()["content"][0]["text"] == "back"
    assert [receipt["usageUnitId"], second["usageUnitId"]] == [sent.message_id for sent in simulator.sent]


async def receipts_of(http: httpx.AsyncClient, run_id: str, count: int) -> list[dict[str, Any]]:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            found: list[dict[str, Any]] = (await http.get(f"/v1/runs/{run_id}/receipts")).json()["items"]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.05)
