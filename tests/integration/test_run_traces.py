"""The traces of runs, received from the real SDK over loopback."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import structlog
from sqlalchemy import text

from app.background import until
from app.db import Database
from app.executors.scripted import Action, CallTool, WaitFor, WriteMessage
from app.telemetry.config import Destination, TelemetryConfig
from app.telemetry.sdk.opening import open_sdk
from app.telemetry.service import Telemetry
from app.telemetry.trace_context import CallerTrace
from tests.factories import an_account
from tests.integration.run_service import RETRIED, Core, a_core, a_request, caller_of
from tests.otlp import OtlpReceiver, an_otlp_receiver

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
BY_CALLER = CallerTrace(f"00-{TRACE}-{CALLER}-01")


@asynccontextmanager
async def traces_to(receiver: OtlpReceiver) -> AsyncIterator[Telemetry]:
    """Telemetry of one process."""
    config = TelemetryConfig(
        Destination(f"{receiver.url}/v1/traces"), Destination(f"{receiver.url}/v1/metrics")
    )
    async with open_sdk(config, instance_id="p1") as telemetry:
        yield telemetry


async def beat(core: Core) -> None:
    await core.heartbeat.send()


async def test_a_run_that_another_process_takes_over_is_one_trace(
    database: Database, tmp_path: Path
) -> None:
    pause = WaitFor(asyncio.Event(), asyncio.Event())
    first: list[Action] = [CallTool("nothing", {}), WriteMessage("Late.", before_end=pause)]
    async with an_otlp_receiver() as otlp:
        async with (
            traces_to(otlp) as before,
            traces_to(otlp) as after,
            a_core(database, tmp_path / "frozen", lambda _: first, is_dispatching=False, telemetry=before) as frozen,
            a_core(database, tmp_path / "other", lambda _: [CallTool("other", {})], telemetry=after) as other,
        ):
            caller = caller_of(await an_account(database))
            resumed = a_request(RETRIED, state_key="k", run_id="resumed")
            lost = a_request(run_id="lost")
            for request in (resumed, lost):
                await frozen.service.start(caller, request, request_id=None, caller_trace=BY_CALLER)
            assert pause.reached is not None
            await pause.reached.wait()
            async with database.transaction() as tx:
                await tx.execute(text("UPDATE workers SET seen_at = now() - interval '1 hour'"))
            assert await other.recovery.recover() == 2
            await other.service.wait(other_key := (await other.service.list_runs(caller.account_id, limit=2))[0][0].key)
            del other_key
            await frozen.heartbeat.send()
            async with asyncio.timeout(20):
                while frozen.process.supervisor.active_attempts():
                    await asyncio.sleep(0.01)

    assert otlp.tree(["runtally.run_id", "runtally.attempt", "error.type"]) == []
