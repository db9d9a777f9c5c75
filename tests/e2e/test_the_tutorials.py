"""Each tutorial, followed from its first line to its last in an empty directory."""

import re
from collections.abc import AsyncIterator
from pathlib import Path
from shutil import which

import asyncpg
import pytest
import pytest_asyncio

from tests.architecture.test_sentences import TUTORIALS
from tests.e2e.reader import Reader, a_reader

pytestmark = pytest.mark.long

_BLOCK = re.compile(r"^```(\S+) ?([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHOP = ["runtally init shop", "cd shop"]
_BEGUN_WITH = {
    "asks-before-it-acts": _SHOP,
    "chat-in-react": _SHOP,
    "fleet-on-kubernetes": ["export ANTHROPIC_BASE_URL={provider} RUNTALLY_IDLE_PROCESSES=0"],
}
"""What there is before the first line, where a tutorial begins at the end of another one or in a cluster."""


@pytest_asyncio.fixture
async def bills_url(database_url: str) -> AsyncIterator[str]:
    """A database whose role of the tutorial is taken away afterwards: roles belong to the whole server."""
    yield database_url
    admin = await asyncpg.connect(database_url)
    if await admin.fetchval("SELECT 1 FROM pg_roles WHERE rolname = 'grafana_bills'"):
        await admin.execute("DROP OWNED BY grafana_bills; DROP ROLE grafana_bills")
    await admin.close()


def blocks_of(page: Path) -> list[tuple[str, str, str]]:
    """The language, the options and the text of each block."""
    return _BLOCK.findall(page.read_text("utf-8"))


@pytest.mark.skipif(which("curl") is None, reason="a tutorial uses curl")
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
async def test_a_reader_with_only_the_page_reaches_its_end(
    page: Path, memory_path: Path, bills_url: str, redis_url: str
) -> None:
    there = {"DATABASE_URL": bills_url, "REDIS_URL": redis_url, "ANTHROPIC_API_KEY": "sk-test"}
    async with a_reader(memory_path, **there) as reader:
        await reader.does("\n".join(_BEGUN_WITH.get(page.stem, [])).format(provider=reader.provider))
        for language, options, text in blocks_of(page):
            await follow(reader, language, options, text)


async def follow(reader: Reader, language: str, options: str, text: str) -> None:
    """Do what a block is for."""
    if options.startswith("file="):
        await reader.writes(options.removeprefix("file="), text)
    elif options.startswith("page="):
        await reader.asks(options.removeprefix("page="), text)
    elif language == "console" and options == "background":
        await reader.begins(text)
    elif language == "console":
        await reader.does(text)
    elif language == "text":
        for line in text.splitlines():
            await reader.sees(line)
    else:
        assert language == "sh"
        await reader.prepares(text)
