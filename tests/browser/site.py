"""A running server, and browsers that open its pages."""

import asyncio
import itertools
import json
import os
import shutil
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from playwright.async_api import Browser, BrowserContext, ConsoleMessage, Page, async_playwright

from app.ids import ApiKeyId
from app.requests.principal import SCOPES
from app.simulator.script import Answer, ApiRequest, HttpError, Responder
from tests.clients import node
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import World
from tests.patience import PATIENCE_S
from tests.programs import require

_CHROMIUM = "chromium-headless-shell"
_ARGUMENTS = [
    "--no-sandbox",
    "--site-per-process",
    # Pages of one site share a process, which has read their scripts: a visit takes a quarter less CPU.
    "--renderer-process-limit=1",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
SCREENSHOTS = Path(__file__).parent / "screenshots"
PICTURES = "RUNTALLY_TESTS_SCREENSHOTS"
"""Set by those who want to look at the pages."""
DESKTOP, PHONE = (1280, 800), (390, 844)
ASSISTANT, MAILER, WORKER, ASKER, THRIFTY = (
    f"{MESSAGES}:{name}" for name in ("assistant", "mailer", "worker", "asker", "thrifty")
)
"""Pages look the same with either executor; only subagents need the other one."""

Opened = TypeVar("Opened")

_numbers = itertools.count(1)

_REPORT_VIOLATIONS = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`));
"""
_HAS_AXE = {"expression": "typeof axe === 'object'", "returnByValue": True}
# The rules of lesser problems are half of the work.
_AXE = """{
  const lesser = axe._audit.rules.filter(({ impact }) => ["minor", "moderate"].includes(impact));
  const rules = Object.fromEntries(lesser.map(({ id }) => [id, { enabled: false }]));
  axe.run(document, { resultTypes: ["violations"], rules }).then((found) => found.violations
    .filter((violation) => ["serious", "critical"].includes(violation.impact))
    .map((violation) => [violation.id, ...violation.nodes.map((node) => node.html)].join("\\n  ")));
}"""

# With reduced motion a colour changes in a hundredth of a millisecond, and what inherits it a frame later.
_DRAWN = """async () => {
  const isChanging = () => document.getAnimations().some((each) => each instanceof CSSTransition);
  for (let frames = 0; frames < 2 || (frames < 60 && isChanging()); frames++)
    await new Promise(requestAnimationFrame);
}"""


@dataclass
class Model:
    """The scripted model behind the site; each test gives it a script."""

    script: Responder = field(default=lambda _request: HttpError(500))

    def __call__(self, request: ApiRequest) -> Answer | Awaitable[Answer]:
        """Answer as the script says."""
        return self.script(request)


@dataclass(frozen=True, slots=True)
class Key:
    """An API key of an account of its own."""

    id: ApiKeyId
    account: str
    secret: str


@dataclass(frozen=True, slots=True)
class Site:
    """A running server and the profile of a browser that looks at it, one page at a time.

    All visits are in one profile, which each finds empty: a page in a new profile costs a second more.
    """

    world: World
    model: Model
    profile: BrowserContext
    open: Page
    """A page of the same origin: it keeps the process that shows the next ones."""

    async def key(self, *scopes: str) -> Key:
        """A new account and a key of it; with all scopes but `admin` by default."""
        account = f"account-{next(_numbers)}"
        chosen = scopes or tuple(scope for scope in SCOPES if scope != "admin")
        record, secret = await self.world.services.accounts.create_key(account, chosen, name="a browser's")
        return Key(record.id, account, secret)

    @asynccontextmanager
    async def visit(
        self,
        key: Key | None = None,
        *,
        path: str = "/",
        size: tuple[int, int] = DESKTOP,
        dark: bool = False,
        complaints: Sequence[str] = (),
        script: str = "",
    ) -> AsyncIterator[Page]:
        """Open a page, signed in if there is a key; fails on errors or warnings in the console at the end.

        `complaints` are parts of expected ones; `script` runs before those of the page.
        """
        await self._forget()
        console: list[str] = []
        if key is not None:
            await sign_in(self.profile, key)
        async with await self.profile.new_page() as page:
            await page.emulate_media(reduced_motion="reduce")
            await resize(page, size, dark=dark)
            await page.add_init_script(_REPORT_VIOLATIONS + script)
            page.on("console", lambda message: console.extend(_complaint(message)))
            page.on("pageerror", lambda error: console.append(f"uncaught: {error}"))
            await page.goto(path)
            yield page
        unexpected = [line for line in console if not any(part in line for part in complaints)]
        assert unexpected == [], unexpected

    async def _forget(self) -> None:
        """Remove what the last visit left in the profile."""
        await self.profile.clear_cookies()
        debugger = await self.profile.new_cdp_session(self.open)
        everything = {"origin": self.world.url, "storageTypes": "all"}
        await debugger.send("Storage.clearDataForOrigin", everything)
        await debugger.detach()


@asynccontextmanager
async def a_browser() -> AsyncIterator[Browser]:
    """The system's Chromium, as the program that has no windows: it takes 40 % less CPU."""
    require(_CHROMIUM)
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=shutil.which(_CHROMIUM), args=_ARGUMENTS) as browser,
    ):
        yield browser


@asynccontextmanager
async def a_site(
    world: World, model: Model, browser: Browser, *, locale: str = "en-GB"
) -> AsyncIterator[Site]:
    """A new profile of the browser, at a server."""
    async with (
        await browser.new_context(base_url=world.url, locale=locale, timezone_id="UTC") as profile,
        await profile.new_page() as page,
    ):
        profile.set_default_timeout(PATIENCE_S * 1000)
        await page.goto("/healthz")
        yield Site(world, model, profile, page)


@asynccontextmanager
async def in_its_own_task(context: AbstractAsyncContextManager[Opened]) -> AsyncIterator[Opened]:
    """Enter and leave in one task, as a server must be; fixtures are not promised that."""
    ready: asyncio.Future[Opened] = asyncio.get_running_loop().create_future()
    stop = asyncio.Event()

    async def keep() -> None:
        async with context as opened:
            ready.set_result(opened)
            await stop.wait()

    keeping = asyncio.create_task(keep())
    waited: list[asyncio.Future[Any]] = [ready, keeping]
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    try:
        if not keeping.done():
            yield ready.result()
    finally:
        stop.set()
        await keeping


def _complaint(message: ConsoleMessage) -> list[str]:
    return [f"{message.text} {message.location['url']}"] if message.type in {"error", "warning"} else []


async def sign_in(context: BrowserContext, key: Key) -> None:
    """Have a browser hold a session, without the form."""
    response = await context.request.post("/v1/browser-session", data={"apiKey": key.secret})
    assert response.ok, await response.text()


async def resize(page: Page, size: tuple[int, int], *, dark: bool = False) -> None:
    """Show the page in this size and these colours: a tenth of the work of another visit."""
    await page.set_viewport_size({"width": size[0], "height": size[1]})
    await page.emulate_media(color_scheme="dark" if dark else "light")


async def looks_well(page: Page, name: str, *shapes: tuple[tuple[int, int], bool]) -> None:
    """Fail unless the page fits these sizes, in dark colours or not, and is accessible; leave pictures."""
    for size, dark in shapes:
        await resize(page, size, dark=dark)
        await page.evaluate(_DRAWN)
        await screenshot(page, f"{name}-{size[0]}{'-dark' if dark else ''}")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (size, dark)
        problems = await accessibility_problems(page)
        assert problems == [], (size, dark, problems)


async def screenshot(page: Page, name: str) -> None:
    """Leave a picture for people to look at, if they want to."""
    if not os.environ.get(PICTURES):
        return
    SCREENSHOTS.mkdir(exist_ok=True)
    await page.screenshot(path=SCREENSHOTS / f"{name}.png", animations="disabled")


async def accessibility_problems(page: Page) -> list[str]:
    """What axe-core calls serious or critical; past the policy, which lets no foreign script in."""
    debugger = await page.context.new_cdp_session(page)
    if not (await debugger.send("Runtime.evaluate", _HAS_AXE))["result"]["value"]:
        axe = node.install() / "axe-core" / "axe.min.js"
        await debugger.send("Runtime.evaluate", {"expression": axe.read_text(encoding="utf-8") + ";0"})
    run = {"expression": _AXE, "awaitPromise": True, "returnByValue": True}
    answer = await debugger.send("Runtime.evaluate", run)
    await debugger.detach()
    assert "exceptionDetails" not in answer, json.dumps(answer)
    return cast("list[str]", cast("dict[str, Any]", answer)["result"]["value"])
