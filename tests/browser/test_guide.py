"""The guide in a browser."""

import re

import pytest
from playwright.async_api import expect

from tests.browser.site import DESKTOP, PHONE, Site, accessibility_problems, resize, screenshot

pytestmark = pytest.mark.asyncio(loop_scope="session")

WIDE = (1440, 900)


async def test_a_reader_goes_from_page_to_page_without_a_key(site: Site) -> None:
    async with site.visit(path="/docs/guide", size=WIDE) as page:
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        await screenshot(page, "guide-contents")
        await page.get_by_role("link", name="An agent in five minutes").first.click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("An agent in five minutes")
        await screenshot(page, "guide-tutorial")
        await page.get_by_label("On this page").get_by_role("link", name="Change the tool").click()
        assert page.url.endswith("/docs/guide/tutorials/first-agent#change-the-tool")
        await page.get_by_label("Previous and next page").get_by_role("link").last.click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("An agent that asks before it acts")
        # In a text, to a page in another folder.
        await page.get_by_role("article").get_by_role("link", name="rules").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Graphs")
        await expect(page.get_by_role("link", name="Graphs", exact=True)).to_have_attribute(
            "aria-current", "page"
        )
        problems = await accessibility_problems(page)

    assert problems == []
    assert [
        url
        for url in requests
        if not url.startswith(site.world.url) or "search.json" in url or "diagrams" in url
    ] == []


async def test_diagrams_are_drawn_and_a_section_about_search_is_not_the_search(site: Site) -> None:
    async with site.visit(path="/docs/guide/api/conversations#search", dark=True) as page:
        picture = page.get_by_role("img", name="Diagram")
        await expect(picture).to_have_js_property("complete", True)
        await expect(page.locator("pre > .language-mermaid")).to_be_hidden()
        problems = await accessibility_problems(page)
        await page.get_by_role("link", name="Branches", exact=True).click()
        await expect(page.get_by_role("link", name="Conversations", exact=True)).to_be_in_viewport()
        await page.get_by_role("button", name="Search").click()
        await expect(page.get_by_role("searchbox")).to_be_focused()

    assert problems == []


async def test_the_search_finds_sections_and_leads_to_them(site: Site) -> None:
    async with site.visit(path="/docs/guide/api/runs", dark=True) as page:
        await page.keyboard.press("/")
        search = page.get_by_role("dialog", name="Search")
        await search.get_by_role("searchbox").fill("replica reports")
        first = search.get_by_role("link").first
        await expect(first).to_contain_text("A replica for lists and reports")
        await screenshot(page, "guide-search-dark")
        problems = await accessibility_problems(page)
        await search.get_by_role("searchbox").fill("<img src=x>")
        await expect(search.get_by_role("status")).to_have_text("Nothing has all these words.")
        await search.get_by_role("searchbox").fill("replica reports")
        await first.click()
        await expect(page).to_have_url(
            re.compile("/docs/guide/operations/storage#a-replica-for-lists-and-reports$")
        )
        await screenshot(page, "guide-operations-dark")

    assert problems == []


async def test_the_index_of_the_search_may_fail_to_load(site: Site) -> None:
    failed = ["Failed to load resource"]
    async with site.visit(path="/docs/guide", complaints=failed) as page:
        await page.route("**/search.json", lambda route: route.abort())
        await page.get_by_role("button", name="Search").click()
        status = page.get_by_role("dialog").get_by_role("status")
        await expect(status).to_contain_text("The search cannot be loaded")
        await page.unroute("**/search.json")
        await page.get_by_role("button", name="Close").click()
        await page.get_by_role("button", name="Search").click()
        await expect(status).to_have_text("Words of a title, a heading or the text.")


@pytest.mark.long
@pytest.mark.parametrize("path", ["", "/api/events", "/settings", "/operations/log-events"])
async def test_the_pages_fit_a_phone_and_a_desk(site: Site, path: str) -> None:
    async with site.visit(path=f"/docs/guide{path}") as page:
        for size in (PHONE, DESKTOP, WIDE):
            await resize(page, size)
            assert await page.evaluate("document.documentElement.scrollWidth") <= size[0]
            if size == PHONE:
                await page.get_by_role("button", name="Pages").click()
                await expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
                await screenshot(page, f"guide-phone-pages{path.replace('/', '-')}")
                await page.keyboard.press("Escape")
                await expect(page.get_by_role("navigation", name="Pages")).to_be_hidden()
                assert await accessibility_problems(page) == []
            await screenshot(page, f"guide{path.replace('/', '-')}-{size[0]}")


async def test_a_page_that_is_not_there_is_said_to_be_missing(site: Site) -> None:
    async with site.visit(path="/docs/guide") as page:
        for name in ("nothing", "", "decisions/0001-embedded-postgresql", "..%2f..%2fREADME"):
            answered = await page.request.get(f"/docs/guide/{name}")
            assert (
                answered.status,
                "not exist" in await answered.text() or "no such page" in await answered.text(),
            ) == (404, True)


async def test_pictures_of_a_tutorial_are_shown(site: Site) -> None:
    async with site.visit(path="/docs/guide/tutorials/asks-before-it-acts", size=WIDE) as page:
        picture = page.get_by_role("img", name="A call that waits")
        await picture.scroll_into_view_if_needed()
        assert await picture.evaluate("async image => (await image.decode(), image.naturalWidth)") == 600
        await screenshot(page, "guide-picture")
        problems = await accessibility_problems(page)

    assert problems == []
