"""Whether a server offers graphs with native tools."""

import asyncio
import shutil
import subprocess
import sys

import pytest
from structlog.testing import capture_logs

from app.executors.claude_agent.sandbox.port import SandboxUnavailable
from app.executors.claude_agent.sandbox.probe import SandboxProbe
from tests.patience import PATIENCE_S
from tests.programs import require
from tests.unit.billing.receipts.test_journal_full_disk import no_new_files


async def test_without_the_gateway_there_is_no_sandbox() -> None:
    probe = SandboxProbe(behind_gateway=False)

    problem = await probe.problem()
    with capture_logs() as logs, pytest.raises(SandboxUnavailable) as error:
        await probe.require()

    assert problem is not None
    assert "local_session" in problem
    assert logs == [{"event": "sandbox.unavailable", "log_level": "error", "reason": problem}]
    assert "local_session" not in error.value.detail


async def test_the_check_at_start_logs_a_problem_and_raises_nothing() -> None:
    probe = SandboxProbe(behind_gateway=False)

    with capture_logs() as logs:
        await probe.check()
        await probe.check()

    assert [line["event"] for line in logs] == ["sandbox.unavailable"] * 2


async def test_without_files_for_the_probe_there_is_no_sandbox() -> None:
    probe = SandboxProbe(behind_gateway=True)

    with no_new_files(), pytest.raises(SandboxUnavailable):
        await probe.require()


@pytest.mark.parametrize("program", ["bwrap", "socat"])
def test_without_its_programs_there_is_no_sandbox(program: str) -> None:
    """In a process to which the program is an empty file."""
    require("bwrap", "socat")
    asks = (
        "import asyncio; from app.executors.claude_agent.sandbox.probe import SandboxProbe; "
        "print(asyncio.run(SandboxProbe(behind_gateway=True).problem()) is not None)"
    )
    places = ["--dev-bind", "/", "/", "--ro-bind", "/dev/null", shutil.which(program) or ""]
    masked = ["bwrap", "--die-with-parent", *places, "--", sys.executable, "-c", asks]

    asked = subprocess.run(masked, capture_output=True, text=True, timeout=PATIENCE_S, check=True)

    assert asked.stdout == "True\n"


async def test_a_probe_that_is_cancelled_ends() -> None:
    for steps in range(12):
        probing = asyncio.create_task(SandboxProbe(behind_gateway=True).problem())
        for _ in range(steps):
            await asyncio.sleep(0)
        probing.cancel()

        async with asyncio.timeout(PATIENCE_S):
            await asyncio.wait({probing})
        assert probing.done()
