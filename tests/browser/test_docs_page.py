"""The page with the documentation of the API."""

import pytest
from playwright.async_api import expect

from tests.browser.site import Site, screenshot

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_the_documentation_is_shown_without_any_other_server(site: Site) -> None:
    foreign: list[str] = []

    async with site.visit() as page:
        page.on("request", lambda request: foreign.append(request.url))
        await page.goto("/docs")
        await page.get_by_text("Start a run and stream its events").click()
        await expect(page.get_by_text("Request body").first).to_be_visible()
        await screenshot(page, "docs")

    assert [url for url in foreign if not url.startswith((site.world.url, "data:"))] == []
    assert foreign
