"""The files that a conversation keeps, on the chat page."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.async_api import Page, Request, expect

from app.simulator.script import Reply, Text, ToolUse, in_turn
from tests.browser.site import DESKTOP, PHONE, Site, looks_well
from tests.browser.test_chat_page import ended, send
from tests.e2e import workshop
from tests.programs import require

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEEPER = "claude_agents:keeper"
REVERSES = "\u202e"
HOSTILE = f"<img src=x onerror=alert(1)>{REVERSES}"
PROGRAM = f"def area(radius):\n    return 3.14 * radius ** 2  # {HOSTILE}\n"
CHANGED = PROGRAM.replace("3.14", "3.14159")
MAKES_OTHERS = (
    "head -c 2000000 /dev/zero > zeros.bin; printf '\\377\\376' > few.bin; mkdir -p 'a dir';"
    " yes line | head -n 9000 > 'a dir/long #1.txt'"
)


@contextmanager
def requests_for_files(page: Page) -> Iterator[list[str]]:
    """What the page has requested of files, and of the conversation's list."""
    seen: list[str] = []

    def see(request: Request) -> None:
        if "/files" in request.url or "/workspace" in request.url:
            seen.append(request.url)

    page.on("request", see)
    yield seen
    page.remove_listener("request", see)


async def a_kept_program(site: Site, page: Page) -> None:
    """A conversation of two turns, the second of which has changed what the first has left."""
    site.model.script = in_turn(
        Reply([ToolUse("Write", {"file_path": "/workspace/area.py", "content": PROGRAM})]),
        Reply([workshop.bash(MAKES_OTHERS)]),
        Reply([Text("Written.")]),
        Reply(
            [
                ToolUse(
                    "Edit", {"file_path": "/workspace/area.py", "old_string": "3.14", "new_string": "3.14159"}
                )
            ]
        ),
        Reply([workshop.bash("rm few.bin")]),
        Reply([Text("Changed.")]),
    )
    await send(page, "Write it", graph=KEEPER)
    await ended(page)
    await send(page, "More digits")
    await ended(page, answers=2)


async def test_kept_files_are_listed_shown_compared_and_downloaded(site: Site) -> None:
    require("bwrap", "socat")
    async with site.visit(await site.key(), complaints=["status of 404"]) as page:
        await a_kept_program(site, page)
        await page.reload()
        await expect(page.get_by_text("Changed.", exact=True)).to_be_visible()
        with requests_for_files(page) as requested:
            await expect(page.get_by_role("button", name="Files", exact=True)).to_be_visible()
            assert requested == []
            await page.get_by_role("button", name="Files", exact=True).click()
            panel = page.get_by_role("dialog", name="Files of this conversation")
            await expect(panel.get_by_role("listitem")).to_have_count(4)
            assert len(requested) == 1
        await expect(panel.get_by_text("few.bin")).to_be_visible()
        await expect(panel.get_by_role("listitem").filter(has_text="few.bin")).to_contain_text("deleted")
        await expect(panel.get_by_role("listitem").filter(has_text="area.py")).to_contain_text("· modified")
        await panel.get_by_text("area.py").click()
        await expect(panel.locator("del")).to_have_text(
            [f"-     return 3.14 * radius ** 2  # {HOSTILE[:-1]}"]
        )
        await expect(panel.locator("ins")).to_have_text(
            [f"+     return 3.14159 * radius ** 2  # {HOSTILE[:-1]}"]
        )
        await expect(panel.locator(".hljs-keyword").first).to_have_text("def")
        await expect(panel.locator("img")).to_have_count(0)
        await panel.get_by_text("zeros.bin").click()
        await expect(panel.get_by_text("It is too large to be shown.")).to_be_visible()
        await panel.get_by_text("long #1.txt").first.click()
        await expect(panel.get_by_text("thousand characters more")).to_be_visible()
        await panel.evaluate("panel => panel.scrollTo(0, 0)")
        await looks_well(page, "chat-files", (DESKTOP, False), (PHONE, True))

        async with page.expect_download() as one:
            await panel.get_by_role("link", name="Download area.py").click()
        assert (await (await one.value).path()).read_text() == CHANGED
        async with page.expect_download() as all_of_them:
            await panel.get_by_role("link", name="Download all").click()
        assert (await all_of_them.value).suggested_filename == "files.zip"
        await page.keyboard.press("Escape")
        await expect(panel).to_have_count(0)

        await page.route(
            "**/v1/runs/*/files/*", lambda route: route.continue_(url=f"{route.request.url}.gone")
        )
        await page.get_by_role("button", name="Files", exact=True).click()
        await panel.get_by_text("area.py").click()
        await expect(panel.get_by_text("no such file")).to_be_visible()
