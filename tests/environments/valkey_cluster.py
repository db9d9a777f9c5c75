"""A cluster of three shards carries the events."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.redis_programs import a_cluster


@asynccontextmanager
async def opened(directory: Path, database_url: str, provider_url: str) -> AsyncIterator[dict[str, str]]:
    del database_url, provider_url
    async with a_cluster(directory / "cluster") as cluster:
        yield {"REDIS_URL": cluster.url}
