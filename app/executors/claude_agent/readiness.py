"""ReadinessProbe: checks at intervals whether the model can be reached."""

import structlog

from app.background import forever
from app.executors.claude_agent.auth import ModelAuth

log = structlog.get_logger(__name__)

CHECK_EVERY_S = 300.0


class ReadinessProbe:
    """Holds the result of the last check; a check makes no billable call."""

    def __init__(self, auth: ModelAuth) -> None:
        self._auth = auth
        self.checked = False
        """Whether there was a check yet."""
        self.problem: str | None = None
        """The problem found, for the operator; None if there was none."""

    async def run(self) -> None:
        """Check until cancelled; log changes."""
        await forever(self._check, CHECK_EVERY_S, name="readiness check")

    async def _check(self) -> None:
        problem = await self._auth.problem()
        if problem is not None and problem != self.problem:
            log.error("model.unreachable", reason=problem)
        elif problem is None and self.problem is not None:
            log.info("model.reachable")
        self.problem, self.checked = problem, True
