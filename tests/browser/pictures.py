"""`python -m tests.browser.pictures`: draws the pictures of the documents anew, from the demo."""

import asyncio
import io
import os
import sys
import tempfile
from asyncio.subprocess import DEVNULL, PIPE
from pathlib import Path

from PIL import Image
from playwright.async_api import Page, ViewportSize

from tests.architecture.tree import ROOT
from tests.browser.site import a_browser

PICTURES = ROOT / "docs" / "pictures"
OF_THE_GUIDE = ROOT / "app" / "web" / "pictures"
"""A wheel has these, so they are small."""
_SIZE = ViewportSize(width=1280, height=720)
_NAMES = {"chat": "/", "billing": "/billing", "console": "/console"}


async def draw() -> None:
    """Run the demo, and photograph its pages."""
    with tempfile.TemporaryDirectory() as directory:
        demo = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "app", "demo", "--port", "0"),
            cwd=directory,
            env={"PATH": os.environ["PATH"], "HOME": directory, "PYTHONPATH": str(ROOT)},
            stdin=DEVNULL,
            stdout=PIPE,
        )
        assert demo.stdout is not None
        printed: dict[str, str] = {}
        async for line in demo.stdout:
            name, _, value = line.decode().strip().partition("  ")
            printed[name] = value.strip()
            if name.startswith("Serving until"):
                break
        try:
            await _photograph(printed["URL"], printed["API key"])
        finally:
            demo.terminate()
            await demo.wait()


async def _photograph(url: str, key: str) -> None:
    for directory in (PICTURES, OF_THE_GUIDE):
        directory.mkdir(exist_ok=True)
    async with a_browser() as browser:
        context = await browser.new_context(base_url=url, viewport=_SIZE, color_scheme="light")
        response = await context.request.post("/v1/browser-session", data={"apiKey": key})
        assert response.ok, response.status
        page = await context.new_page()
        for name, path in _NAMES.items():
            await page.goto(path)
            await page.wait_for_load_state("networkidle")
            if name == "chat":
                await _ask(page)
            await page.screenshot(path=Path(PICTURES / f"{name}.png"))
        _keep("chat", PICTURES / "chat.png", width=720)
        await page.goto(_NAMES["chat"])
        await page.get_by_role("combobox").first.select_option("claude_agents:demo_concierge")
        await _say(page, "A table for two in Rome at eight, please.")
        await page.get_by_role("button", name="Allow", exact=True).wait_for()
        _keep("consent", await page.locator("details.tool").screenshot(), width=600)


async def _ask(page: Page) -> None:
    """Have the agent call a tool."""
    await _say(page, "What time is it in Tokyo?")
    await page.get_by_text("Is there anything else?").last.wait_for()
    await page.get_by_role("button", name="Stop").wait_for(state="hidden")


async def _say(page: Page, text: str) -> None:
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")


def _keep(name: str, seen: Path | bytes, *, width: int) -> None:
    """Keep a screenshot as a picture of the guide."""
    picture = Image.open(io.BytesIO(seen) if isinstance(seen, bytes) else seen).convert("RGB")
    picture = picture.resize((width, picture.height * width // picture.width), Image.Resampling.LANCZOS)
    picture.save(OF_THE_GUIDE / f"{name}.avif", quality=30, speed=4, subsampling="4:4:4")


if __name__ == "__main__":
    asyncio.run(draw())
