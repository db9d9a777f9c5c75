"""One browser and one server, where each test has its own accounts. All run in the loop of the session."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from tests.browser.site import Model, Site, a_browser, a_site, in_its_own_task
from tests.conftest import a_database
from tests.e2e import office, workshop
from tests.e2e.agents import named_by_caller
from tests.e2e.stories import a_world
from tests.patience import PATIENCE_S

_LEAD = """---
description: Leads.
tools: [core__get_current_time]
agents:
  clock-watcher:
    description: Knows the time.
    prompt: You are the clock-watcher.
    tools: [core__get_current_time]
---
You lead.
"""


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    """The browser of all files."""
    expect.set_options(timeout=PATIENCE_S * 1000)
    async with a_browser() as browser:
        yield browser


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def _an_office_of_its_own() -> None:
    """Which has sent nothing yet."""
    office.close_office()


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def site(
    postgres: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Site]:
    """The server that the files share: a browser that knows it has its scripts already."""
    async with a_new_site(postgres, browser, tmp_path_factory.mktemp("site")) as site:
        yield site


@asynccontextmanager
async def a_new_site(postgres: str, browser: Browser, directory: Path) -> AsyncIterator[Site]:
    """A server with the office's tools, its graphs and one with a subagent; the tests write its model."""
    model = Model()
    settings = {
        **office.settings(directory),
        "RUNTALLY_TOOLS": "tests.e2e.office,tests.browser.rooms",
        # Some tests leave runs that wait.
        "RUNTALLY_MAX_CONCURRENT_RUNS": 64,
    }
    (directory / "graphs" / "booker.md").write_text(
        "---\ndescription: Books.\ntools: [rooms__book]\napprove: [external_side_effect]\n---\nBook.\n"
    )
    (directory / "graphs" / "lead.md").write_text(_LEAD)
    (directory / "graphs" / "asker.md").write_text("---\ndescription: Asks.\nquestions: true\n---\nAsk.\n")
    (directory / "graphs" / "thrifty.md").write_text(
        "---\ndescription: Tells the time.\ntools: [core__get_current_time]\non_budget: pause\n---\nHelp.\n"
    )
    if shutil.which("bwrap") and shutil.which("socat"):
        workshop.settings(directory, "approve: [state_change]")
        (directory / "graphs" / "keeper.md").write_text(
            "---\ndescription: Keeps files.\nnative_tools: [Write, Edit, Bash]\n"
            "workspace: {keep: conversation}\n---\nEdit files.\n"
        )
    async with a_database(postgres) as url:
        served = a_world(directory, url, named_by_caller(model), **settings)
        async with in_its_own_task(served) as world, a_site(world, model, browser) as site:
            yield site


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def blank(site: Site) -> AsyncIterator[Page]:
    """A page without scripts, in which the tests of a file try modules of the pages."""
    async with site.visit(path="/healthz") as page:
        yield page
