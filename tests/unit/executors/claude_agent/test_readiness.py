"""Whether runs could be answered, as the last look at it showed."""

import asyncio
from dataclasses import dataclass, field

import structlog

from app.executors.claude_agent.readiness import ReadinessProbe
from tests.patience import PATIENCE_S
from tests.unit.executors.claude_agent.an_executor import OwnAuth


@dataclass(slots=True)
class FailingAuth(OwnAuth):
    problems: list[str | None] = field(default_factory=list)
    called: asyncio.Event = field(default_factory=asyncio.Event)

    async def problem(self) -> str | None:
        self.called.set()
        return self.problems.pop(0)


async def checked_once(probe: ReadinessProbe, auth: FailingAuth) -> None:
    running = asyncio.create_task(probe.run())
    async with asyncio.timeout(PATIENCE_S):
        await auth.called.wait()
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    auth.called.clear()


async def test_a_problem_is_known_logged_once_and_forgotten_when_it_is_over() -> None:
    auth = FailingAuth(problems=["the key was refused", "the key was refused", None])
    probe = ReadinessProbe(auth)
    assert (probe.checked, probe.problem) == (False, None)

    with structlog.testing.capture_logs() as logs:
        await checked_once(probe, auth)
        assert (probe.checked, probe.problem) == (True, "the key was refused")
        await checked_once(probe, auth)
        await checked_once(probe, auth)

    assert probe.problem is None
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [
        ("model.unreachable", "error"),
        ("model.reachable", "info"),
    ]
