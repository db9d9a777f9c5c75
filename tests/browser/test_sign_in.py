"""Signing in and out in a browser."""

import pytest
from playwright.async_api import expect

from tests.browser.site import PHONE, Site, accessibility_problems, screenshot

pytestmark = pytest.mark.asyncio(loop_scope="session")

REFUSED = "status of 401"


@pytest.mark.long
async def test_the_documentation_needs_no_key_and_no_other_server(site: Site) -> None:
    requested: list[str] = []

    async with site.visit() as page:
        page.on("request", lambda request: requested.append(request.url))
        await page.goto("/docs")
        await page.get_by_text("Start a run and stream its events").click()
        await expect(page.get_by_text("Request body").first).to_be_visible()
        await screenshot(page, "docs")

    assert requested
    assert [url for url in requested if not url.startswith((site.world.url, "data:"))] == []


async def test_a_person_signs_in_and_out(site: Site) -> None:
    key = await site.key()

    async with site.visit() as page:
        await expect(page.get_by_label("API key")).to_be_focused()
        await screenshot(page, "sign-in")
        assert await accessibility_problems(page) == []
        await page.get_by_label("API key").fill(f" {key.secret} ")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_text(key.account).first.click()
        await expect(page.get_by_text("receipts:read")).to_be_visible()
        await screenshot(page, "who")
        assert await accessibility_problems(page) == []

        (cookie,) = await page.context.cookies()
        assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == (
            "runtally_session",
            True,
            "Strict",
        )
        assert key.secret not in str(await page.context.storage_state())

        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_text("You are signed out.")).to_be_visible()
        assert await page.context.cookies() == []
        await page.reload()
        await expect(page.get_by_role("button", name="Sign in")).to_be_visible()


async def test_a_tab_shows_no_one_who_is_not_signed_in_any_more(site: Site) -> None:
    first, second = await site.key(), await site.key()

    async with site.visit(first) as page, await site.profile.new_page() as other:
        await page.get_by_role("textbox", name="Message").fill("For the first account alone")
        await other.goto("/console")
        await other.get_by_text(first.account).first.click()
        await other.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_label("API key")).to_be_visible()
        await other.get_by_label("API key").fill(second.secret)
        await other.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_text(second.account).first).to_be_visible()
        await expect(page.get_by_role("textbox", name="Message")).to_have_value("")


async def test_an_invalid_key_is_rejected_with_a_sentence(site: Site) -> None:
    async with site.visit(size=PHONE, dark=True, complaints=[REFUSED]) as page:
        await page.get_by_role("button", name="Sign in").click()
        await expect(page.get_by_role("alert")).to_have_text("Enter an API key.")
        await page.get_by_label("API key").fill("rt_" + "x" * 43)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("alert")).to_have_text("This API key is not valid, or it was revoked.")
        await expect(page.get_by_label("API key")).to_be_focused()
        await screenshot(page, "sign-in-refused-phone-dark")
        assert await accessibility_problems(page) == []


async def test_a_page_shows_that_the_server_is_unreachable(site: Site) -> None:
    key = await site.key()

    async with site.visit(key, complaints=["net::ERR_FAILED"]) as page:
        await expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
        await page.route("**/v1/browser-session", lambda route: route.abort())
        await page.reload()
        await expect(page.get_by_role("heading", name="cannot be reached")).to_be_visible()
        await page.unroute("**/v1/browser-session")
        await page.get_by_role("button", name="Try again").click()
        await expect(page.get_by_role("navigation", name="Pages")).to_be_visible()
