"""Pages on paper: all of a conversation and of each table."""

import pytest
from playwright.async_api import Page, expect

from app.simulator.script import Reply, Text, in_turn
from tests.browser.books import opened
from tests.browser.site import ASSISTANT, Site, resize
from tests.browser.test_chat_page import ended, send
from tests.e2e.stories import a_client, a_request

pytestmark = pytest.mark.asyncio(loop_scope="session")

A4 = (794, 1123)
MORE_THAN_ARE_DRAWN = 51
LINES_THAT_ARE_DRAWN_LATER = 25
_NOTE_WHAT_IS_PRINTED = """
matchMedia("print").addEventListener("change", ({matches}) => {
  const last = [...document.querySelectorAll(".prose p")].filter((line) => line.textContent === "Last.");
  if (matches) window.printed = [document.querySelector(".user-message").innerText.trim(), last.length];
});
"""


async def test_a_whole_conversation_is_printed(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("First.\n\n" + "A line.\n\n" * 200 + "Last.")]))
    async with site.visit(await site.key()) as page:
        await send(page, "Many lines", graph=ASSISTANT)
        await ended(page)
        await _printed(page)
        await expect(page.get_by_role("textbox", name="Message")).to_be_hidden()
        ends = [await page.get_by_text(text, exact=True).first.bounding_box() for text in ("First.", "Last.")]
        paper = await page.evaluate("document.documentElement.scrollHeight")

    assert ends[0] is not None
    assert ends[1] is not None
    assert 0 < ends[0]["y"] < ends[1]["y"] < paper


async def test_every_turn_is_printed(site: Site) -> None:
    site.model.script = lambda _: Reply([Text("A line.\n\n" * LINES_THAT_ARE_DRAWN_LATER + "Last.")])
    key = await site.key()
    async with a_client(site.world.url, key.secret) as http:
        for number in range(MORE_THAN_ARE_DRAWN):
            said = a_request(f"Question {number}.", graphId=ASSISTANT, stateKey="long")
            (await http.post("/v1/runs/wait", json=said)).raise_for_status()
    async with site.visit(key, path="/?conversation=long", script=_NOTE_WHAT_IS_PRINTED) as page:
        await expect(page.get_by_text("Last.", exact=True)).to_have_count(MORE_THAN_ARE_DRAWN - 1)
        await page.pdf()
        assert await page.evaluate("printed") == ["Question 0.", MORE_THAN_ARE_DRAWN]


async def test_no_table_of_a_bill_is_cut_off(site: Site) -> None:
    books = await opened(site)
    async with site.visit(books.key, path="/billing") as page:
        await expect(page.locator(".receipts tbody tr").first).to_be_visible()
        await _printed(page)
        await expect(page.get_by_role("link", name="Export as CSV").first).to_be_hidden()
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await expect(page.get_by_label("Period")).to_be_visible()


async def _printed(page: Page) -> None:
    await resize(page, A4)
    await page.emulate_media(media="print")
