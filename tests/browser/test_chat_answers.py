"""Answers on the chat page: how they are drawn, and what can be done with them."""

from dataclasses import replace

import pytest
from playwright.async_api import Page, expect

from app.simulator.script import Reply, Text, in_turn
from tests.browser.site import ASSISTANT, PHONE, Site, accessibility_problems, looks_well, screenshot
from tests.browser.test_chat_page import ended, send
from tests.e2e.stories import a_client

pytestmark = pytest.mark.asyncio(loop_scope="session")

_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
RICH = r"""The mass is $E = mc^2$, and a price is $5 to $10.

$$
\int_0^\infty e^{-x^2}\,dx = \frac{\sqrt{\pi}}{2}
$$

```python
def area(radius: float) -> float:
    "Of a circle, with a comment on a line that is much longer than the column in which it is shown."
    return 3.14159 * radius ** 2  # <b>no markup</b>
```

| river | length, km | sea |
| :--- | ---: | :---: |
| Nile | 6650 | "Mediterranean", they say |
| =1+1 | -12 | Black |

![A pixel](data:image/png;base64,PIXEL)

And a diagram:

```mermaid
graph LR; A-->B
```
""".replace("PIXEL", _PIXEL)
WIDE = (1440, 900)


async def copies_of(page: Page) -> None:
    """Let the page copy into `copied` instead of the clipboard."""
    await page.evaluate(
        "Object.defineProperty(navigator, 'clipboard',"
        " {value: {writeText: async (text) => { window.copied = text; }}})"
    )


async def test_code_formulas_and_tables_are_drawn(site: Site) -> None:
    site.model.script = in_turn(Reply([Text(RICH)]))
    async with site.visit(await site.key(), size=WIDE) as page:
        await copies_of(page)
        await send(page, "Show me all you can", graph=ASSISTANT)
        await ended(page)
        await expect(page.locator(".formula-display math")).to_have_count(1)
        await expect(page.locator(".formula math")).to_have_count(2)
        await expect(page.locator(".prose").get_by_text("a price is $5 to $10.")).to_be_visible()
        await expect(page.locator(".hljs-keyword").first).to_have_text("def")
        await expect(page.locator(".prose").get_by_text("<b>no markup</b>")).to_be_visible()
        await expect(page.get_by_role("img", name="Diagram: A, B")).to_be_visible()
        assert await page.locator("td").nth(1).evaluate("cell => getComputedStyle(cell).textAlign") == "right"
        assert await page.get_by_alt_text("A pixel").evaluate("image => image.naturalWidth") == 1
        await page.get_by_role("button", name="Copy as CSV").click()
        table = await page.evaluate("window.copied")
        await page.get_by_role("button", name="Copy this code").first.click()
        code = await page.evaluate("window.copied")
        wrap = page.get_by_role("button", name="Wrap long lines").first
        await wrap.click()
        await expect(wrap).to_have_attribute("aria-pressed", "true")
        await expect(page.locator("pre").first).to_have_css("white-space", "pre-wrap")
        await page.get_by_role("button", name="Copy the answer").click()
        assert await page.evaluate("window.copied") == RICH
        await screenshot(page, "answers-rich")
        assert await accessibility_problems(page) == []
        await page.reload()
        await expect(page.locator(".formula math")).to_have_count(2)
        await expect(page.locator(".hljs-keyword").first).to_be_visible()
        await looks_well(page, "answers-rich", (WIDE, True), (PHONE, False), (PHONE, True))

    assert table == (
        'river,"length, km",sea\r\nNile,6650,"""Mediterranean"", they say"\r\n\'=1+1,-12,Black\r\n'
    )
    assert code.startswith("def area")
    assert code.endswith("<b>no markup</b>\n")


async def test_an_answer_is_repeated_a_question_edited_and_versions_are_switched(site: Site) -> None:
    site.model.script = in_turn(*[Reply([Text(f"Answer {number}.")]) for number in range(1, 6)])
    key = await site.key()
    async with site.visit(key) as page, a_client(site.world.url, key.secret) as http:
        await send(page, "First?", graph=ASSISTANT)
        await ended(page)
        await send(page, "Second?")
        await ended(page, answers=2)
        await page.get_by_role("button", name="Answer again").last.click()
        await expect(page.locator(".prose", has_text="Answer 3.")).to_be_visible()
        versions = page.get_by_role("group", name="Versions").locator("span")
        await expect(versions).to_have_text("2/2")
        await expect(page.locator(".prose", has_text="Answer 2.")).to_have_count(0)

        await page.get_by_role("button", name="Edit and send again").first.click()
        await page.get_by_role("textbox", name="Your message").fill("Another first?")
        await screenshot(page, "answers-edit")
        await page.get_by_role("button", name="Send again", exact=True).click()
        await expect(page.locator(".prose", has_text="Answer 4.")).to_be_visible()
        await expect(page.get_by_text("Second?")).to_have_count(0)
        await expect(versions).to_have_text("2/2")
        await send(page, "Third?")
        await expect(page.locator(".prose", has_text="Answer 5.")).to_be_visible()

        await page.get_by_role("button", name="Previous version").click()
        await expect(page.locator(".prose")).to_have_text(["Answer 1.", "Answer 2."])
        await expect(versions).to_have_text(["1/2", "1/2"])
        await page.get_by_role("button", name="Next version").last.click()
        await expect(page.locator(".prose")).to_have_text(["Answer 1.", "Answer 3."])
        await expect(versions).to_have_text(["1/2", "2/2"])
        await screenshot(page, "answers-versions")
        await page.reload()
        await expect(page.locator(".prose")).to_have_text(["Answer 1.", "Answer 3."])
        await page.get_by_role("button", name="Next version").first.click()
        await expect(page.locator(".prose")).to_have_text(["Answer 4.", "Answer 5."])
        assert await accessibility_problems(page) == []
        (conversation,) = (await http.get("/v1/sessions")).json()["items"]

    assert conversation["branches"] == 3
    last = site.world.simulator.requests[-1].body["messages"]
    assert "Another first?" in str(last)
    assert "Second?" not in str(last)


async def test_an_answer_is_rated_and_shows_what_it_has_taken_to_those_who_may_know(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("It is so.")]))
    key = await site.key()
    async with site.visit(key) as page, a_client(site.world.url, key.secret) as http:
        await send(page, "Is it so?", graph=ASSISTANT)
        await ended(page)
        await page.get_by_role("button", name="Bad answer").click()
        await page.get_by_label("What was wrong?").fill("It is not so.")
        await screenshot(page, "answers-feedback")
        assert await accessibility_problems(page) == []
        await page.get_by_role("button", name="Save the note").click()
        await expect(page.get_by_label("What was wrong?")).to_have_count(0)
        await page.reload()
        await expect(page.get_by_role("button", name="Bad answer")).to_have_attribute("aria-pressed", "true")
        await page.get_by_role("button", name="Details").click()
        details = page.get_by_role("group", name="Details of this answer")
        await expect(details).to_contain_text("Output tokens")
        await expect(details).to_contain_text("Cost$0.0")
        await screenshot(page, "answers-details")
        assert await accessibility_problems(page) == []
        (run,) = (await http.get("/v1/runs")).json()["items"]

    assert (run["feedback"]["rating"], run["feedback"]["note"]) == ("down", "It is not so.")

    _, secret = await site.world.services.accounts.create_key(key.account, ["runs:write", "runs:read"])
    async with site.visit(replace(key, secret=secret), path=page.url) as page:
        await page.get_by_role("button", name="Details").click()
        details = page.get_by_role("group", name="Details of this answer")
        await expect(details).to_contain_text("Output tokens")
        await expect(details).not_to_contain_text("Cost")
