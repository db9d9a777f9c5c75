"""What stops a CLI besides its deadline: what its commands use, and a limit that was reached."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from claude_agent_sdk import ClaudeAgentOptions

from app.executors.claude_agent.process.cli_process import CliProcess
from app.executors.claude_agent.process.directory import RunDirectory
from app.executors.claude_agent.sandbox.running_sandbox import RunningSandbox
from app.executors.claude_agent.watchdog import Watchdog
from app.executors.port import ABORTED, BUDGET, INTERNAL, RunContext, RunOutcome
from app.workspaces.spec import WorkspaceSpec
from app.workspaces.workspace import Workspace
from tests.factories import a_context, a_plan
from tests.patience import PATIENCE_S
from tests.unit.executors.claude_agent.fake_cli import FakeCli
from tests.unit.gateway.calls import Billing, a_channel, a_message
from tests.unit.waiting import until

LONG = timedelta(seconds=10 * PATIENCE_S)


class Sandbox(RunningSandbox):
    """Uses as much as it is told, from the second look on."""

    def __init__(self, *found: str | OSError | None) -> None:
        super().__init__(Workspace(WorkspaceSpec(), [], []), None)
        self.found = list(found)

    def exceeded_limit(self) -> str | None:
        found = self.found.pop(0)
        if isinstance(found, OSError):
            raise found
        return found


async def goes_on(cli: FakeCli, message: dict[str, Any]) -> None:
    cli.begin(message)
    await cli.interrupted.wait()
    cli.result(subtype="error_during_execution", terminal_reason="aborted_streaming")


@asynccontextmanager
async def watched(
    tmp_path: Path, sandbox: RunningSandbox | None = None
) -> AsyncIterator[tuple[Watchdog, CliProcess, RunContext, FakeCli]]:
    """A process in the middle of its turn."""
    cli = FakeCli(goes_on)
    process = CliProcess(cli.client(ClaudeAgentOptions()), RunDirectory(tmp_path))
    owner = process.start()
    context = a_context(a_plan(timeout=LONG))
    watchdog = Watchdog(context, process, sandbox, leave=asyncio.Event().wait)
    try:
        async with asyncio.timeout(PATIENCE_S):
            process.send("m1", "go")
            await process.responded.wait()
            yield watchdog, process, context, cli
    finally:
        watchdog.close()
        cli.die()
        await asyncio.wait({owner})


@pytest.mark.parametrize(
    ("found", "outcome"),
    [([None, "max_processes"], BUDGET), ([OSError(5, "gone")], INTERNAL)],
    ids=["a limit", "nothing to be seen"],
)
async def test_commands_that_exceed_a_limit_or_cannot_be_watched_end_their_run_by_a_kill(
    tmp_path: Path, found: list[str | OSError | None], outcome: RunOutcome
) -> None:
    async with watched(tmp_path, Sandbox(*found)) as (watchdog, process, _, _cli):
        await until(lambda: watchdog.outcome is not None)

        assert (watchdog.outcome, process.killed) == (outcome, True)


async def test_a_budget_that_is_reached_ends_the_run_by_an_interrupt(tmp_path: Path) -> None:
    async with watched(tmp_path) as (watchdog, process, _, cli):
        channel = a_channel(Billing(), max_total_tokens=5)
        watchdog.check_budget(channel)
        before = watchdog.outcome

        channel.close_message(a_message(tokens=5))
        watchdog.check_budget(channel)
        await process.exited.wait()

    assert (before, watchdog.outcome, process.killed, cli.interrupts) == (None, BUDGET, False, 1)


async def test_an_interrupt_without_another_message_ends_the_run(tmp_path: Path) -> None:
    async with watched(tmp_path) as (watchdog, process, context, _):
        context.control.stop_turn.set()
        await process.exited.wait()

        assert watchdog.outcome == ABORTED


async def test_with_another_message_it_ends_the_turn_only(tmp_path: Path) -> None:
    async with watched(tmp_path) as (watchdog, process, context, cli):
        process.send("m2", "and this")
        context.control.stop_turn.set()
        await until(lambda: len(cli.prompts) == 2 and not context.control.stop_turn.is_set())

        assert (watchdog.outcome, process.killed) == (None, False)


async def test_a_process_that_still_runs_at_the_end_is_killed(tmp_path: Path) -> None:
    async with watched(tmp_path) as (watchdog, process, _, _cli):
        watchdog.close()

        assert process.killed
