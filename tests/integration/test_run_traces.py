"""The traces of runs without the CLI, sent by the real SDK and received on loopback."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import requests
from structlog.testing import capture_logs

from app.ids import RunId, RunKey
from app.platform.db import Database
from app.platform.telemetry.config import Destination, TelemetryConfig
from app.platform.telemetry.sdk.opening import open_sdk
from app.platform.telemetry.sdk.receiver import ReportingSession
from app.platform.telemetry.service import Telemetry
from app.platform.telemetry.trace_context import CallerTrace
from tests.e2e.stories import until
from tests.factories import a_wait, an_account, reached_by
from tests.integration.run_service import RETRIED, OpenCore, a_core, a_request, answers, caller_of
from tests.integration.statements import execute
from tests.otlp import an_otlp_receiver
from tests.scripted import Action, CallTool, WriteMessage

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
NO_URL = "http://[::1"
BY_CALLER = CallerTrace(f"00-{TRACE}-{CALLER}-01", "vendor=1")


@asynccontextmanager
async def telemetry_to(url: str) -> AsyncIterator[Telemetry]:
    """Telemetry of one process."""
    config = TelemetryConfig(
        {"traces": Destination(f"{url}/v1/traces"), "metrics": Destination(f"{url}/v1/metrics")}
    )
    async with open_sdk(config, instance_id="p1") as telemetry:
        yield telemetry


async def test_a_run_that_another_process_takes_over_is_one_trace(
    open_core: OpenCore, database: Database
) -> None:
    pause = a_wait()
    slow: list[Action] = [CallTool("first", {}), WriteMessage("Late.", before_end=pause)]
    async with (
        an_otlp_receiver() as otlp,
        telemetry_to(otlp.url) as before,
        telemetry_to(otlp.url) as after,
        open_core(lambda _: slow, is_dispatching=False, telemetry=before) as frozen,
        open_core(lambda _: [CallTool("second", {})], telemetry=after) as other,
    ):
        caller = caller_of(await an_account(database))
        labels: dict[str, Any] = {"end_user": "ann", "tags": {"team": "search"}}
        requests = (a_request(RETRIED, state_key="k", run_id="resumed", **labels), a_request(run_id="lost"))
        for request in requests:
            await frozen.service.start(caller, request, request_id=None, caller_trace=BY_CALLER)
        await reached_by(pause)
        await execute(database, "UPDATE workers SET seen_at = now() - interval '1 hour'")
        assert await other.recovery.recover() == 2
        await other.service.wait(RunKey(caller.account_id, RunId("resumed")))
        await frozen.heartbeat.send()
        await until(lambda: not frozen.process.supervisor.active_attempts())

    tree = otlp.tree(["runtally.run_id", "runtally.attempt", "error.type"])
    assert tree == [
        "INTERNAL invoke_agent claude_agents:retried resumed 1",
        "  INTERNAL execute_tool first resumed 0 tool_error",
        "  INTERNAL execute_tool second resumed 1 tool_error",
        "INTERNAL invoke_agent claude_agents:once lost 0 internal",
        "  INTERNAL execute_tool first lost 0 tool_error",
    ]
    assert otlp.tree(["user.id", "runtally.tag.team"]) == [
        "INTERNAL invoke_agent claude_agents:retried ann search",
        "  INTERNAL execute_tool first ann search",
        "  INTERNAL execute_tool second ann search",
        "INTERNAL invoke_agent claude_agents:once",
        "  INTERNAL execute_tool first",
    ]
    assert {(span.trace_id, span.trace_state) for span in otlp.spans} == {(TRACE, "vendor=1")}
    assert [span.parent_id for span in otlp.spans if span.name.startswith("invoke")] == [CALLER] * 2


async def test_a_run_without_a_caller_has_a_trace_of_its_own_and_shows_how_long_it_waited(
    database: Database, tmp_path: Path
) -> None:
    pause = a_wait()
    script = {"slow": [WriteMessage("A.", before_end=pause)], "next": [WriteMessage("B.")]}
    async with (
        an_otlp_receiver() as otlp,
        telemetry_to(otlp.url) as telemetry,
        a_core(
            database,
            tmp_path,
            lambda request: script[request.messages[0].text],
            places=1,
            telemetry=telemetry,
        ) as core,
    ):
        caller = caller_of(await an_account(database))
        await core.start(prompt="slow", run_id="r1")
        await reached_by(pause)
        await core.start(prompt="next", run_id="r2")
        pause.until.set()
        await core.service.wait(RunKey(caller.account_id, RunId("r2")))

    assert otlp.tree(["runtally.run_id", "runtally.status"]) == [
        "INTERNAL invoke_agent claude_agents:once r1 succeeded",
        "INTERNAL invoke_agent claude_agents:once r2 succeeded",
        "  INTERNAL queue r2",
    ]
    assert len({span.trace_id for span in otlp.spans}) == 2
    assert [span.parent_id for span in otlp.spans if span.name.startswith("invoke")] == [""] * 2


async def test_a_receiver_that_refuses_delays_nothing_and_is_logged_once(
    open_core: OpenCore, caplog: pytest.LogCaptureFixture
) -> None:
    async with an_otlp_receiver(status=503) as otlp:
        with capture_logs() as logs:
            async with telemetry_to(otlp.url) as telemetry, open_core(answers, telemetry=telemetry) as core:
                record = await core.start()
                assert (await core.service.wait(record.key)).ok
    # Each signal once and no more: it is not waited for.
    assert otlp.requests == 2
    failed = [each for each in logs if each["event"] == "telemetry.export_failed"]
    assert sorted((each["signal"], each["reason"]) for each in failed) == [
        ("metrics", "HTTP 503"),
        ("traces", "HTTP 503"),
    ]
    assert [each["signal"] for each in logs if each["event"] == "telemetry.left_unsent"] != []
    assert caplog.records == []


async def test_a_receiver_that_does_not_answer_delays_the_stop_for_seconds_at_most() -> None:
    async with an_otlp_receiver(holds=True) as otlp:
        with capture_logs() as logs:
            async with telemetry_to(otlp.url) as telemetry:
                assert telemetry.metrics is not None
                telemetry.metrics.record_tool(1, tool="t", error_type=None)

    # It was left before the SDK gave up.
    assert [each["event"] for each in logs] == ["telemetry.left_unsent"]


async def test_a_receiver_that_is_back_is_logged_and_no_other_host_gets_the_secret_headers() -> None:
    async with an_otlp_receiver(status=503) as otlp, an_otlp_receiver() as other:
        session = ReportingSession("traces", otlp.url)
        with capture_logs() as logs:
            for status, location in (
                (503, ""),
                (503, ""),
                (200, ""),
                (307, other.url),
                (307, NO_URL),
                (200, ""),
            ):
                otlp.status, otlp.location = status, location
                with suppress(requests.TooManyRedirects):
                    headers = {"x-secret": "s"}
                    await asyncio.to_thread(session.post, f"{otlp.url}/v1/traces", data=b"", headers=headers)
        session.close()

    assert [(each["event"], each.get("reason")) for each in logs] == [
        ("telemetry.export_failed", "HTTP 503"),
        ("telemetry.export_resumed", None),
        ("telemetry.export_failed", "HTTP 307"),
        ("telemetry.export_resumed", None),
    ]
    assert other.requests == 0


async def test_without_telemetry_there_is_no_thread_and_no_span(
    open_core: OpenCore, database: Database
) -> None:
    before = set(threading.enumerate())
    async with open_core(answers) as core:
        caller = caller_of(await an_account(database))
        record = await core.service.start(caller, a_request(), request_id=None, caller_trace=BY_CALLER)
        assert (await core.service.wait(record.key)).ok
        started = {thread.name for thread in set(threading.enumerate()) - before}
        kept = await core.service.get(record.key)

    assert not {name for name in started if name.startswith("Otel")}
    # For the log, and for a worker that has telemetry.
    assert kept.caller_trace == BY_CALLER
