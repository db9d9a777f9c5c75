"""IdleWatch: ends idle processes that no run may use any more."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from app.conversations.transcript_store import TranscriptStore
from app.executors.claude_agent.launching.pool import CliPool, ParkedCli
from app.ids import ApiKeyId
from app.platform.background import forever

log = structlog.get_logger(__name__)

CHECK_INTERVAL_S = 1.0
"""How long after a deletion or revocation the process of a conversation may still exist."""


@dataclass(frozen=True, slots=True)
class IdleWatch:
    """Checks the conversations and API keys of all parked processes, wherever they were deleted or revoked.

    A run never depends on it: it compares the conversation itself before it takes a parked process.
    """

    pool: CliPool
    sessions: TranscriptStore
    find_active: Callable[[set[ApiKeyId]], Awaitable[set[ApiKeyId]]]
    """Returns the keys that are not revoked; it may raise `Unavailable`."""

    async def watch(self) -> None:
        """Check until cancelled; sends no query while nothing is parked."""
        await forever(self.check, CHECK_INTERVAL_S, name="idle_processes.check")

    async def check(self) -> None:
        """End what expired, and what was parked for a deleted conversation or a revoked key."""
        self.pool.end_expired()
        if not (parked := self.pool.parked()):
            return
        existing = await self.sessions.undeleted([each.conversation for each in parked])
        active = await self.find_active({each.api_key_id for each in parked})
        self._end([each for each in parked if each.conversation.session_id not in existing], "deleted")
        self._end([each for each in parked if each.api_key_id not in active], "revoked")

    def _end(self, parked: list[ParkedCli], reason: str) -> None:
        if parked:
            log.info("cli.parked_ended", reason=reason, processes=len(parked))
            self.pool.end_parked(parked)
