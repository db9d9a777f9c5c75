"""A master with a replica, watched by three Sentinels, carries the events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.redis_programs import a_watched_master


@asynccontextmanager
async def opened(directory: Path, database_url: str, provider_url: str) -> AsyncIterator[dict[str, str]]:
    del database_url, provider_url
    async with a_watched_master(directory / "watched") as watched:
        yield {"REDIS_URL": watched.url}
