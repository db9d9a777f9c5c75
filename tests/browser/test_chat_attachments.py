"""Files of a message on the chat page: picked, pasted and dropped."""

import base64
from pathlib import Path

import pytest
from playwright.async_api import FilePayload, Page, expect

from app.simulator.script import ApiRequest, Hold, Reply, Text, in_turn
from tests.browser.site import ASSISTANT, DESKTOP, PHONE, Site, accessibility_problems, looks_well, screenshot
from tests.browser.test_chat_page import ended, send
from tests.e2e.test_a_run_is_previewed import PNG

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURE = FilePayload(name="dot.png", mimeType="image/png", buffer=base64.b64decode(PNG))
NOTES = FilePayload(name="notes.md", mimeType="text/markdown", buffer="# Größe\n\n12 owls".encode())
PROGRAM = FilePayload(name="setup.exe", mimeType="application/x-msdownload", buffer=b"MZ\x00\x01\x02\x00")

_TRANSFER = """
const transfer = new DataTransfer();
const bytes = new Uint8Array([...atob(png)].map((c) => c.charCodeAt(0)));
transfer.items.add(new File([bytes], name, {type: "image/png"}));
"""
_PASTE = f"""(field, [name, png]) => {{ {_TRANSFER}
  const about = {{clipboardData: transfer, bubbles: true, cancelable: true}};
  field.dispatchEvent(new ClipboardEvent("paste", about));
}}"""
_DRAG = f"""(main, [name, png]) => {{ {_TRANSFER}
  main.dispatchEvent(new DragEvent("dragover", {{dataTransfer: transfer, bubbles: true, cancelable: true}}));
}}"""
_DROP = _DRAG.replace("dragover", "drop")


async def pick(page: Page, *files: FilePayload) -> None:
    await page.get_by_label("Files to attach").set_input_files(list(files))


def parts(request: ApiRequest) -> list[str]:
    """What the content blocks of the last message are, or say."""
    content = request.body["messages"][-1]["content"]
    return [block.get("text") or block.get("title") or block["type"] for block in content]


async def test_files_reach_the_model_and_are_named_in_the_conversation(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("A dot, and 12 owls.")]))
    async with site.visit(await site.key()) as page:
        files = page.get_by_role("list", name="Attached files")
        await pick(page, PICTURE, NOTES)
        await expect(files.get_by_role("listitem")).to_have_count(2)
        await pick(page, NOTES)
        await files.get_by_role("button", name="Remove notes.md").last.click()
        await expect(files.locator("img")).to_be_visible()
        await looks_well(page, "chat-attached", (DESKTOP, True), (DESKTOP, False))
        await page.reload()
        await expect(files.get_by_role("listitem")).to_have_count(2)
        await expect(files.locator("img")).to_be_visible()
        await send(page, "What is it?", graph=ASSISTANT)
        await ended(page)
        await expect(files).to_have_count(0)
        names = page.get_by_role("list", name="Attachments").get_by_role("listitem")
        await expect(names).to_have_text(["dot.png", "notes.md"])
        await looks_well(page, "chat-attachments", (DESKTOP, True), (DESKTOP, False))
        await page.reload()
        await expect(names).to_have_text(["image/png", "notes.md"])
        await page.get_by_role("link", name="New conversation").click()
        await expect(page.get_by_role("heading", name="Assistant", level=2)).to_be_visible()
        await expect(files).to_have_count(0)

    request = site.world.simulator.requests[-1]
    assert parts(request) == ["image", "notes.md", "What is it?"]
    assert "12 owls" in str(request.body["messages"])


async def test_files_alone_are_a_message_and_are_pasted_and_dropped(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("Two dots.")]))
    async with site.visit(await site.key(), size=PHONE) as page:
        field = page.get_by_role("textbox", name="Message")
        main = page.get_by_role("main")
        await page.get_by_label("Graph").select_option(ASSISTANT)
        await field.evaluate(_PASTE, ["pasted.png", PNG])
        await main.evaluate(_DRAG, ["dropped.png", PNG])
        await expect(main).to_have_attribute("data-dropping", "true")
        await main.evaluate(_DROP, ["dropped-with-a-name-that-is-much-longer-than-the-screen.png", PNG])
        await expect(main).to_have_attribute("data-dropping", "false")
        await expect(page.get_by_role("list", name="Attached files").get_by_role("listitem")).to_have_count(2)
        await screenshot(page, "chat-attached-phone")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        await page.get_by_role("button", name="Send").click()
        await ended(page)

    assert parts(site.world.simulator.requests[-1]) == ["image", "image"]


async def test_what_cannot_be_sent_is_said_in_words_and_nothing_is_lost(site: Site, tmp_path: Path) -> None:
    site.model.script = in_turn(Reply([Text("Thanks.")]))
    async with site.visit(await site.key(), complaints=["status of 422"]) as page:
        files = page.get_by_role("list", name="Attached files")
        entries = files.get_by_role("listitem")
        send_button = page.get_by_role("button", name="Send")
        await page.get_by_label("Graph").select_option(ASSISTANT)
        await pick(page, FilePayload(name="none.txt", mimeType="text/plain", buffer=b""))
        await expect(entries).to_contain_text("It is empty.")
        await expect(send_button).to_be_disabled()
        await files.get_by_role("button", name="Remove none.txt").click()

        # Of the disk: others are sent to the browser.
        half, other_half = tmp_path / "half.txt", tmp_path / "other" / "half.txt"
        other_half.parent.mkdir()
        for path in (half, other_half):
            with path.open("wb") as file:
                file.truncate(12 * 2**20)
        await page.get_by_label("Files to attach").set_input_files([half, other_half])
        await expect(entries.last).to_contain_text("Files of one message may have 22 MiB together.")
        await files.get_by_role("button", name="Remove half.txt").last.click()
        # So large a file is lost by a reload, which the browser asks about.
        await expect(files.get_by_role("progressbar")).to_have_count(0)
        async with page.expect_event("dialog") as asked:
            await page.evaluate("setTimeout(() => location.reload())")
        await (await asked.value).dismiss()
        await files.get_by_role("button", name="Remove half.txt").click()

        await pick(page, NOTES, PROGRAM)
        await page.get_by_role("textbox", name="Message").fill("Read them.")
        await send_button.click()
        await expect(entries.last).to_contain_text("It is not a PDF or text")
        await expect(send_button).to_be_disabled()
        await screenshot(page, "chat-attachment-refused")
        assert await accessibility_problems(page) == []
        await expect(page.get_by_role("textbox", name="Message")).to_have_value("Read them.")
        await files.get_by_role("button", name="Remove setup.exe").click()
        await send_button.click()
        await ended(page)


async def test_a_running_agent_gets_files(site: Site) -> None:
    hold = Hold(index=0)
    site.model.script = in_turn(Reply([Text("I wait.")], hold=hold), Reply([Text("I see.")]))
    async with site.visit(await site.key()) as page:
        await send(page, "Wait for it.", graph=ASSISTANT)
        await hold.reached.wait()
        await pick(page, PICTURE)
        # It is shown before the server has it; once the run has ended it would begin another one.
        async with page.expect_response("**/messages"):
            await send(page, "This one.")
        await expect(page.get_by_role("list", name="Attachments")).to_have_text("dot.png")
        hold.until.set()
        await ended(page)

    assert parts(site.world.simulator.requests[-1])[-2:] == ["image", "This one."]
