"""`@runtally/client` with servers that are broken, hostile or newer than it is; its types."""

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio

from tests.clients.node import HERE, install, install_client, node
from tests.clients.scripted_server import (
    Chunk,
    ScriptedServer,
    done,
    events,
    frame,
    json_response,
    problem,
    response,
    serving,
    text,
)
from tests.clients.test_python_client import CUT, ENDED, FAILURES, FINAL, KEY, RUN, SILENT
from tests.web.write_types import write_types

TYPES = HERE.parents[1] / "clients" / "typescript" / "src" / "api.ts"
ONE_RETRY = {"maxRetries": 1}
SHORT = {**ONE_RETRY, "timeoutMs": 500}

BETWEEN = events(text(1, "a"), frame(2, "hologram", depth=3))
AMID = events(text(2, "repeated"), text(4, "b")[:20])
SCENES: dict[str, tuple[str, dict[str, Any], Sequence[Sequence[Chunk]]]] = {
    "cut": (
        *("stream", {}),
        [CUT, BETWEEN, problem(503, "shutting_down"), AMID, events(text(4, "b"), done(5)), ENDED],
    ),
    "without reading": (
        *("stream", {}),
        [
            events(text(1, "a")),
            problem(403, "forbidden"),
            events(text(1, "a"), text(2, "b"), done(3)),
            problem(403, "forbidden"),
            json_response(FINAL),
        ],
    ),
    "two loops": (
        "streamInTwoLoops",
        {},
        [events(text(1, "a"), text(2, "b"), done(3)), events(done(3)), ENDED],
    ),
    "late": ("stream", {}, [problem(429, "rate_limit", Retry_After="3600")]),
    "fields": (
        *("stream", {}),
        [
            json_response(
                {"detail": "d", "code": "c", "errors": [{"field": "f", "message": "m"}, 1]}, status=422
            )
        ],
    ),
    "aborted": ("aborted", {}, [events(text(1, "a"), 5.0)]),
    "fork": ("fork", {}, [CUT]),
    "send": ("send", {}, [CUT, json_response({"runId": "run-1", "messageId": "m", "position": 9})]),
    "get": ("get", {}, [json_response(RUN)]),
    "bad id": ("badId", {}, [ENDED]),
    "a page as a file": ("readFile", {}, [response("Sign in")]),
    "endless list": ("listRuns", {}, [json_response({"items": [RUN], "nextCursor": "x"})]),
    **{
        name: ("stream", SHORT if name in SILENT else ONE_RETRY, [answer])
        for name, (answer, _, _) in FAILURES.items()
    },
    "an end without a result": ("stream", ONE_RETRY, [events(done(1)), json_response({"runId": 1})]),
}


class Played(NamedTuple):
    """What came of a scene, and the server it was played with."""

    outcome: dict[str, Any]
    server: ScriptedServer

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.outcome["error"]
        return error


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Played]:
    """All scenes at once, in one process."""
    directory = tmp_path_factory.mktemp("client")
    await asyncio.to_thread(install_client, directory)
    program = directory / "program.mjs"
    program.write_text((HERE / "typescript_client.mjs").read_text())
    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(serving(ENDED))
        moved = response(status=307, Location=f"{other.url}/v1/runs/stream")
        scenes = {**SCENES, "redirected": ("stream", ONE_RETRY, [moved])}
        servers = [await stack.enter_async_context(serving(*answers)) for _, _, answers in scenes.values()]
        acts = [
            {"url": server.url, "act": act, "options": options}
            for server, (act, options, _) in zip(servers, scenes.values(), strict=True)
        ]
        printed = json.loads(await node(str(program), given=json.dumps({"key": KEY, "scenes": acts})))
        assert other.requests == []
        return {
            name: Played(*found)
            for name, found in zip(scenes, zip(printed, servers, strict=True), strict=True)
        }


def deltas(found: Played) -> str:
    return "".join(e["delta"] for e in found.outcome["result"]["events"] if e["type"] == "text_delta")


def test_a_stream_that_is_cut_delivers_each_event_once(played: dict[str, Played]) -> None:
    found = played["cut"]

    first, second, refused, third, fourth, result = found.server.requests
    assert deltas(found) == "ab"
    assert found.outcome["result"]["events"][1] == {
        "type": "unknown",
        "kind": "hologram",
        "data": {"type": "hologram", "depth": 3},
    }
    assert found.outcome["result"]["final"] == FINAL
    assert first.line == second.line == "POST /v1/runs/stream HTTP/1.1"
    assert first.body == second.body
    assert [each.headers.get("last-event-id") for each in (refused, third, fourth)] == ["2", "2", "2"]
    assert result.line == f"GET /v1/runs/{first.json['runId']} HTTP/1.1"
    assert {each.headers["authorization"] for each in found.server.requests} == {f"Bearer {KEY}"}


def test_a_key_that_may_not_read_runs_joins_its_own(played: dict[str, Played]) -> None:
    found = played["without reading"]

    posted = [each for each in found.server.requests if each.line.startswith("POST")]
    assert deltas(found) == "ab"
    assert [each.line.split()[1] for each in posted] == [
        *("/v1/runs/stream", "/v1/runs/stream", "/v1/runs/wait")
    ]
    assert len({each.body for each in posted}) == 1


def test_a_loop_that_was_left_can_be_continued(played: dict[str, Played]) -> None:
    found = played["two loops"]

    assert (found.outcome["result"]["position"], found.outcome["result"]["final"]) == (1, FINAL)
    assert found.server.requests[1].headers["last-event-id"] == "1"


@pytest.mark.parametrize("name", FAILURES)
def test_a_broken_server_is_an_error_of_ours(played: dict[str, Played], name: str) -> None:
    _, kind, _ = FAILURES[name]
    # `fetch` cannot see what Python's client can: bytes that are no events, or no gzip.
    lost = {"garbage without end", "a wrong encoding"}
    error = played[name].error

    assert error["ours"], error
    assert error["name"] == ("ConnectionFailed" if name in lost else kind.__name__)
    assert KEY not in error["message"]
    assert "secret" not in error["message"]
    assert len(played[name].server.requests) <= 2


def test_errors_have_what_the_problem_document_has(played: dict[str, Played]) -> None:
    late, fields = played["late"], played["fields"]

    assert (late.error["name"], late.error["retryAfterMs"]) == ("RateLimited", 3_600_000)
    assert (late.error["code"], late.error["requestId"]) == ("rate_limit", "request-1")
    assert (fields.error["name"], fields.error["status"]) == ("InvalidRequest", 422)
    assert fields.error["errors"] == [{"field": "f", "message": "m"}]
    assert len(late.server.requests) == len(fields.server.requests) == 1


def test_the_key_is_not_sent_to_another_host(played: dict[str, Played]) -> None:
    assert played["redirected"].error["name"] == "InvalidResponse"
    assert "redirects" in played["redirected"].error["message"]


def test_requests_are_executed_once(played: dict[str, Played]) -> None:
    fork, send = played["fork"], played["send"]

    assert (fork.error["name"], len(fork.server.requests)) == ("ConnectionFailed", 1)
    assert send.outcome["result"]["position"] == 9
    assert len({each.headers["idempotency-key"] for each in send.server.requests}) == 1


def test_a_signal_ends_the_waiting(played: dict[str, Played]) -> None:
    assert (played["aborted"].error["message"], played["aborted"].error["ours"]) == ("text_delta", False)
    assert len(played["aborted"].server.requests) == 1


def test_ids_stay_one_part_of_the_path_and_lists_end(played: dict[str, Played]) -> None:
    (request,) = played["get"].server.requests

    assert request.line.split()[1] == "/v1/runs/a%2F..%2F..%2Fv1%2Fkeys%3Fx%23y"
    assert "is no id" in played["bad id"].error["message"]
    assert "does not end" in played["endless list"].error["message"]


def test_a_page_is_not_taken_for_a_file(played: dict[str, Played]) -> None:
    assert "is not a file but text/html" in played["a page as a file"].error["message"]


def test_the_types_are_those_of_the_document(tmp_path: Path) -> None:
    install()
    write_types(str(tmp_path / "api.ts"), of_client=True)

    current = (tmp_path / "api.ts").read_text() == TYPES.read_text()
    assert current, "clients/typescript/src/api.ts is out of date: make client-types"
