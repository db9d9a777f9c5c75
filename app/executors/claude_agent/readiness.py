"""ReadinessProbe: checks at intervals whether the model can be reached."""

import logging
from collections.abc import Mapping

from app.executors.claude_agent.auth import ModelAuth
from app.platform.background import forever
from app.platform.logs.dependency import DependencyLog

CHECK_EVERY_S = 300.0


class ReadinessProbe:
    """Holds the result of the last check; a check makes no billable call."""

    def __init__(self, auth: ModelAuth) -> None:
        self._auth = auth
        self._log = DependencyLog(
            unavailable="model.unreachable",
            available="model.reachable",
            level=logging.ERROR,
            each_reason=True,
        )
        self.checked = False
        """Whether there was a check yet."""
        self.problem: str | None = None
        """The problem found, for the operator; None if there was none."""

    @property
    def refusals(self) -> Mapping[str, str]:
        """Why the provider refuses calls of this server, by model."""
        return self._auth.refusals

    async def run(self) -> None:
        """Check until cancelled; log changes."""
        await forever(self._check, CHECK_EVERY_S, name="readiness check")

    async def _check(self) -> None:
        problem = await self._auth.problem()
        if problem is None:
            self._log.worked()
        else:
            self._log.failed(problem)
        self.problem, self.checked = problem, True
