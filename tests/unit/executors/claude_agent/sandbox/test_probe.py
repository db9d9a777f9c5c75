"""Whether a server offers graphs with native tools."""

import pytest
from structlog.testing import capture_logs

from app.executors.claude_agent.sandbox.port import SandboxUnavailable
from app.executors.claude_agent.sandbox.probe import SandboxProbe


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
