"""A server, its model and a server of pages per test file. These tests run in the session's event loop."""

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.browser.conftest import browser
from tests.browser.site import Model, in_its_own_task
from tests.conftest import TEMPLATE
from tests.e2e import office
from tests.e2e.agents import named_by_caller
from tests.e2e.stories import a_world
from tests.frontends.built import HERE, built_pages
from tests.frontends.frontend import GRACE_S, GRAPHS, Frontends

__all__ = ["browser"]

_THINKER = "---\ndescription: Thinks.\nthinking_budget_tokens: 1024\nshow_thinking: true\n---\nYou think.\n"
_WITH_TOOLS = "---\ndescription: Uses the page's tools.\nclient_tools: true\n---\nYou use tools.\n"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def frontends(
    postgres: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Frontends]:
    """The tests write the model."""
    pages = await asyncio.to_thread(built_pages)
    directory = tmp_path_factory.mktemp("frontends")
    name = f"frontends_{uuid4().hex}"
    admin = await asyncpg.connect(postgres)
    await admin.execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
    model, url = Model(), postgres.rpartition("/")[0] + f"/{name}"
    async with _page_server(str(pages)) as (server, origin):
        settings = {
            "RUNTALLY_CORS_ORIGINS": origin,
            "RUNTALLY_DISCONNECT_GRACE_S": str(GRACE_S),
            **office.settings(directory),
        }
        (directory / "graphs" / "with-tools.md").write_text(_WITH_TOOLS)
        (directory / "graphs" / "thinker.md").write_text(_THINKER)
        served = a_world(directory, url, named_by_caller(model), **settings)
        async with in_its_own_task(served) as world:
            assert server.stdin is not None
            server.stdin.write(json.dumps({"url": world.url, "graphs": GRAPHS}).encode() + b"\n")
            async with await browser.new_context(locale="en-GB", timezone_id="UTC") as profile:
                # An open page of the same origin keeps the process that shows the next ones.
                await (await profile.new_page()).goto(f"{origin}/copilotkit.css", wait_until="commit")
                yield Frontends(world, model, profile, origin)
    await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await admin.close()


@asynccontextmanager
async def _page_server(pages: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The program that serves the pages, and its origin."""
    node = shutil.which("node")
    assert node is not None
    process = await asyncio.create_subprocess_exec(
        *(node, "server.mjs", pages),
        cwd=HERE,
        env={"PATH": os.environ["PATH"], "COPILOTKIT_TELEMETRY_DISABLED": "true"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process, f"http://127.0.0.1:{int(await process.stdout.readline())}"
    finally:
        process.stdin.close()
        await process.wait()
