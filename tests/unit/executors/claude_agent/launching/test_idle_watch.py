"""Which parked processes end although nobody needs their room."""

from pathlib import Path
from uuid import UUID

import pytest

from app.conversations.records import Conversation
from app.conversations.transcript_store import TranscriptStore
from app.errors import Unavailable
from app.executors.claude_agent.launching.idle_watch import IdleWatch
from app.ids import ApiKeyId
from tests.unit.executors.claude_agent.an_executor import NO_DATABASE
from tests.unit.executors.claude_agent.launching.test_pool import a_pool, ended


class Sessions(TranscriptStore):
    """Knows which conversations were deleted."""

    def __init__(self) -> None:
        super().__init__(NO_DATABASE)
        self.deleted: set[UUID] = set()
        self.requests = 0

    async def undeleted(self, conversations: list[Conversation]) -> set[UUID]:  # type: ignore[override]
        self.requests += 1
        return {each.session_id for each in conversations} - self.deleted


class Keys:
    """Knows which keys were revoked."""

    def __init__(self) -> None:
        self.revoked: set[ApiKeyId] = set()
        self.away = False

    async def find_active(self, keys: set[ApiKeyId]) -> set[ApiKeyId]:
        if self.away:
            raise Unavailable
        return keys - self.revoked


async def test_a_process_ends_with_its_conversation_or_its_key(tmp_path: Path) -> None:
    sessions, keys = Sessions(), Keys()
    async with a_pool(tmp_path, size=3) as bench:
        watch = IdleWatch(bench.pool, sessions, keys.find_active)
        deleted, revoked, kept = [await bench.park(name) for name in ("one", "two", "three")]
        await watch.check()
        assert len(bench.pool.parked()) == 3

        sessions.deleted.add(deleted.conversation.session_id)
        keys.revoked.add(revoked.api_key_id)
        await watch.check()

        assert bench.pool.parked() == [kept]
        await ended(deleted.cli)
        await ended(revoked.cli)


async def test_nothing_ends_while_the_database_is_away(tmp_path: Path) -> None:
    sessions, keys = Sessions(), Keys()
    async with a_pool(tmp_path) as bench:
        watch = IdleWatch(bench.pool, sessions, keys.find_active)
        await watch.check()
        assert sessions.requests == 0
        kept = await bench.park()
        keys.away = True
        with pytest.raises(Unavailable):
            await watch.check()

        assert bench.pool.parked() == [kept]


async def test_what_waited_too_long_ends_though_nobody_asks_for_it(tmp_path: Path) -> None:
    async with a_pool(tmp_path, max_idle_s=0) as bench:
        parked = await bench.park()
        await IdleWatch(bench.pool, Sessions(), Keys().find_active).check()

        await ended(parked.cli)
