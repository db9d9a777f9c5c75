"""ReadinessProbe: whether the model can be reached, by checks at intervals and by the calls of runs."""

import logging
from collections.abc import Mapping

from app.executors.claude_agent.auth import ModelAuth
from app.platform.background import forever
from app.platform.logs.dependency import DependencyLog

CHECK_EVERY_S = 300.0


class ReadinessProbe:
    """Knows the result of the last check, which makes no billable call, and of the latest calls."""

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
        self._found: str | None = None

    @property
    def problem(self) -> str | None:
        """The problem, for the operator: of the last check, or of the calls since then."""
        return self._auth.outage or self._found

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
        # An outage ends with the next call that gets a response.
        self._found, self.checked = problem if self._auth.outage is None else None, True
