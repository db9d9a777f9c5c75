"""The pages in other languages than English."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.browser.site import (
    ASSISTANT,
    MAILER,
    PHONE,
    Site,
    a_site,
    accessibility_problems,
    screenshot,
)
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL
from tests.e2e.stories import a_client, a_request

pytestmark = pytest.mark.asyncio(loop_scope="session")

_HOSTILE = '<img src=x onerror="alert(1)"> { $count } {run} \u2069'
_WIDTH = "document.documentElement.scrollWidth"
_MIXED = """مرحبًا بك في المتجر، الطلب رقم `A-17` جاهز.

This paragraph is English.

```sh
ls --all ./orders
```
"""


@asynccontextmanager
async def in_a_browser(site: Site, browser: Browser, locale: str) -> AsyncIterator[Site]:
    """The site, for a person whose browser has this language."""
    async with a_site(site.world, site.model, browser, locale=locale) as other:
        yield other


async def language_of(page: Page) -> tuple[str, str]:
    """The language and the direction of the page."""
    found: list[str] = await page.evaluate("[document.documentElement.lang, document.dir]")
    return found[0], found[1]


async def test_a_chosen_language_is_kept(site: Site) -> None:
    async with site.visit(await site.key()) as page:
        await page.locator(".who summary").click()
        await page.get_by_label("Language").select_option("日本語")
        await expect(page.get_by_role("heading", name="新しい会話")).to_be_visible()
        await page.goto("/approvals")
        await expect(page.get_by_role("heading", name="回答を待っているもの")).to_be_visible()
        await page.locator(".who summary").click()
        await screenshot(page, "approvals-japanese")
        await page.get_by_role("button", name="サインアウト").click()
        await expect(page.get_by_role("heading", name="Runtally にサインイン")).to_be_visible()
        await page.get_by_label("言語").select_option("Español")
        await expect(page.get_by_role("button", name="Iniciar sesión")).to_be_visible()
        assert await language_of(page) == ("es", "ltr")


async def test_the_browsers_language_is_that_of_pages_for_people(site: Site, browser: Browser) -> None:
    mail = {"to": "bob@example.org", "text": "Hello"}
    site.model.script = in_turn(Reply([ToolUse(MAIL, mail)]), Reply([Text("Done.")]))
    async with (
        in_a_browser(site, browser, "de-DE") as german,
        german.visit(await site.key(), path="/billing") as page,
    ):
        await expect(page.get_by_role("link", name="Approvals")).to_be_visible()
        assert await language_of(page) == ("en", "ltr")
        await page.goto("/")
        await expect(page.get_by_role("heading", name="Neue Unterhaltung")).to_be_visible()
        await page.get_by_label("Graph").select_option(MAILER)
        await page.get_by_role("textbox", name="Nachricht").fill(_HOSTILE)
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Der Agent möchte „send mail“ ausführen.")).to_be_visible()
        await screenshot(page, "chat-german")
        await page.get_by_role("button", name="Erlauben", exact=True).click()
        await expect(page.get_by_role("button", name="Ab hier abzweigen")).to_be_visible()
        await expect(page.get_by_text(re.compile(r"^Kosten 0,00\d+\s\$$"))).to_be_visible()
        # What people write is text, and no part of a message.
        await expect(page.get_by_role("button", name=f"Aktionen für {_HOSTILE}")).to_be_visible()
        await expect(page).to_have_title(f"{_HOSTILE} \u2013 Runtally")
        assert await language_of(page) == ("de", "ltr")
        assert await accessibility_problems(page) == []


@pytest.mark.long
async def test_arabic_is_mirrored_and_nothing_leaves_the_screen(site: Site, browser: Browser) -> None:
    mail = {"to": "bob@example.org", "text": "مرحبًا"}
    key = await site.key()
    site.model.script = in_turn(Reply([Text(_MIXED)]), Reply([ToolUse(MAIL, mail)]))
    async with a_client(site.world.url, key.secret, agent=MESSAGES) as http:
        asked = a_request("أين طلبي؟", graphId=ASSISTANT, stateKey="orders")
        (await http.post("/v1/runs/wait", json=asked)).raise_for_status()
        (await http.post("/v1/runs", json=a_request("Write to Bob", graphId=MAILER))).raise_for_status()
    async with in_a_browser(site, browser, "ar-EG") as arabic:
        for size, name in (((1280, 800), "desktop"), (PHONE, "phone")):
            async with arabic.visit(key, path="/?conversation=orders", size=size) as page:
                await expect(page.get_by_text("This paragraph is English.")).to_be_visible()
                await expect(page.get_by_role("button", name="نسخ هذا الكود")).to_be_visible()
                assert await language_of(page) == ("ar", "rtl")
                assert await page.evaluate(_DIRECTIONS) == ["rtl", "ltr", "ltr", "ltr"]
                await screenshot(page, f"chat-arabic-{name}")
                await fits(page, size)
                if size != PHONE:
                    await page.get_by_role("button", name=re.compile("^إجراءات")).click()
                    await expect(page.get_by_role("button", name="إعادة التسمية")).to_be_in_viewport(ratio=1)
                    await screenshot(page, "menu-arabic")
                    await page.keyboard.press("Escape")
                await page.goto("/approvals")
                await expect(page.get_by_role("heading", name="موافقة واحدة")).to_be_visible()
                await screenshot(page, f"approvals-arabic-{name}")
                await fits(page, size)


@pytest.mark.long
async def test_the_way_to_every_page_is_on_a_phone(site: Site) -> None:
    key = await site.key()
    site.model.script = in_turn(Reply([Text("Hello.")]))
    async with a_client(site.world.url, key.secret) as http:
        asked = a_request("Where is my order?", graphId=ASSISTANT, stateKey="orders")
        (await http.post("/v1/runs/wait", json=asked)).raise_for_status()
    async with site.visit(key, size=PHONE) as page:
        for language in ("de", "es", "fr", "ja", "ar", "en"):
            await page.evaluate("language => localStorage.setItem('runtally.language', language)", language)
            await page.reload()
            pages = page.locator(".top nav a")
            await expect(pages).to_have_count(4)
            for place in (0, 3):
                await expect(pages.nth(place)).to_be_in_viewport(ratio=1)
            # Otherwise their beginnings are cut off.
            for text in (".suggestion", ".composer-graph option", ".sidebar-title"):
                await expect(page.locator(text).first).to_have_css("direction", "ltr")


async def fits(page: Page, size: tuple[int, int]) -> None:
    """Fail if something leaves the screen, or is hard to reach."""
    width: Any = await page.evaluate(_WIDTH)
    assert width <= size[0]
    assert await accessibility_problems(page) == []


_DIRECTIONS = """() => {
  const blocks = [...document.querySelectorAll(".answer .block")].slice(0, 2);
  const code = ["p code", "pre"].map((name) => document.querySelector(`.answer ${name}`));
  return [...blocks, ...code].map((element) => getComputedStyle(element).direction);
}"""
