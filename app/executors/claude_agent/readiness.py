"""Whether runs could be answered, asked now and then."""

import asyncio

import structlog

from app.executors.claude_agent.auth import ModelAuth

log = structlog.get_logger(__name__)

ASK_EVERY_S = 300.0


class ReadinessProbe:
    """Knows how it was when it last asked; asking costs nothing."""

    def __init__(self, access: ModelAuth) -> None:
        self._access = access
        self.asked = False
        """Whether it has asked at all."""
        self.problem: str | None = None
        """What was wrong, in words for the operator."""

    async def watch(self) -> None:
        """Ask until cancelled; say in the log what has changed."""
        while True:
            problem = await self._access.problem()
            if problem is not None and problem != self.problem:
                log.error(problem)
            elif problem is None and self.problem is not None:
                log.info("runs can be answered again")
            self.problem, self.asked = problem, True
            await asyncio.sleep(ASK_EVERY_S)
