"""The chat in the page of another site, whose backend is the one of docs/EMBED.md."""

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fastapi import FastAPI, Response
from playwright.async_api import Browser, FrameLocator, Page, expect

from app.platform.server.loopback import Receive, Scope, Send, serve_on_loopback
from app.simulator.script import Hold, Reply, Text, in_turn
from tests.browser.site import (
    PHONE,
    Model,
    Site,
    a_site,
    accessibility_problems,
    in_its_own_task,
    screenshot,
)
from tests.clients.quick_starts import programs
from tests.conftest import a_database
from tests.e2e.agents import named_by_caller
from tests.e2e.stories import a_client, a_world
from tests.patience import until_shown

pytestmark = pytest.mark.asyncio(loop_scope="session")

_ANSWER = "We open at **nine**.\n\n```mermaid\ngraph LR\nOpen -->|at six| Closed\n```"
_BACKEND, _SCRIPT, _STYLE, _ISSUERS = (
    dict(programs("EMBED.md", language))[title]
    for language, title in (
        ("python", "Sign tokens"),
        ("html", "Add it to your pages"),
        ("css", "Colours and type"),
        ("json", "Set up the server"),
    )
)
# A browser may refuse a storage to frames of other sites.
_KEPT = """() => {
  const kept = (name) => {
    try { return Object.keys(window[name]).join() || "nothing" } catch { return "nothing" }
  };
  return [kept("localStorage"), kept("sessionStorage"), document.cookie, location.search];
}"""
_PROGRAM = """<script src="{0}/embed.js"></script><script>
const ask = async () => (await (await fetch("/chat-token", {{method: "POST"}})).json()).token;
window.heard = [];
for (const type of ["open", "close", "message", "error"])
  Runtally.addEventListener(type, ({{detail}}) => window.heard.push([type, detail?.code ?? null]));
{1}
</script>"""


@dataclass
class Shop:
    """A site with a page, of which the server knows the origin at `url`, and not that at `other_url`."""

    site: Site
    url: str
    backend: dict[str, Any]
    body: str = ""
    style: str = ""
    policy: str = ""

    @property
    def other_url(self) -> str:
        """The same page, of another origin."""
        return self.url.replace("localhost", "127.0.0.1")

    @property
    def documented(self) -> str:
        """What the document adds to a page."""
        return _SCRIPT.replace("https://runtally.example.org", self.site.world.url)

    def program(self, text: str) -> str:
        """What adds a chat with a program of the page."""
        return _PROGRAM.format(self.site.world.url, text)

    def token(self, user: str, **claims: Any) -> str:
        """A token that the site signs."""
        usual = {"iss": self.url, "aud": "runtally", "sub": user, "exp": int(time.time()) + 600}
        signed: str = self.backend["jwt"].encode(
            {**usual, **claims}, self.backend["KEY"], algorithm="ES256", headers={"kid": "first"}
        )
        return signed

    async def show(self) -> Response:
        """Its page."""
        text = (
            "<!doctype html><html lang=en><head><title>Shop</title>"
            "<meta name=viewport content='width=device-width'>"
            f"{self.style and f'<style>{self.style}</style>'}</head>"
            f"<body><main><h1>A shop</h1></main>{self.body}</body></html>"
        )
        return Response(text, media_type="text/html", headers={"Content-Security-Policy": self.policy})

    @asynccontextmanager
    async def visit(
        self, body: str, *, user: str = "ann", url: str | None = None, **options: Any
    ) -> AsyncIterator[tuple[Page, FrameLocator]]:
        """Open its page with this in it, signed in there; yields the page and the frame of the chat."""
        self.body = body
        async with self.site.visit(path="/healthz", **options) as page:
            await self.site.profile.add_cookies([{"name": "user", "value": user, "url": url or self.url}])
            await page.goto(f"{url or self.url}/shop")
            yield page, page.frame_locator("iframe")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shop(
    postgres: str, browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Shop]:
    """A server that knows the site, with the settings and the backend of the document."""
    directory, backends = tmp_path_factory.mktemp("shop"), list[FastAPI]()

    async def backend(scope: Scope, receive: Receive, send: Send) -> None:
        await backends[0](scope, receive, send)

    async with serve_on_loopback(backend) as address, a_database(postgres) as database_url:
        url = address.replace("127.0.0.1", "localhost")
        namespace = _backend(url, directory)
        backends.append(namespace["app"])
        model = Model(lambda _: Reply([Text(_ANSWER)]))
        settings: dict[str, Any] = {
            "RUNTALLY_EMBED_ORIGINS": url,
            "RUNTALLY_JWT_ISSUERS": _ISSUERS.replace("https://shop.example.org", url),
        }
        served = a_world(directory, database_url, named_by_caller(model), **settings)
        async with in_its_own_task(served) as world, a_site(world, model, browser) as site:
            await world.services.accounts.create_account("acme")
            shop = Shop(site, url, namespace)
            backends[0].add_api_route("/shop", shop.show)
            backends[0].add_api_route("/favicon.ico", lambda: Response(status_code=204))
            yield shop


def _backend(url: str, directory: Path) -> dict[str, Any]:
    """What the program of the document defines, for a site with a new key."""
    key = generate_private_key(SECP256R1())
    file = directory / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SITE_URL", url)
        environment.setenv("SIGNING_KEY_FILE", str(file))
        namespace: dict[str, Any] = {"__name__": "shop"}
        exec(_BACKEND, namespace)  # noqa: S102 - of our own document
    return namespace


async def ask(frame: FrameLocator, question: str, *, field: str = "Message", send: str = "Send") -> None:
    """Write a message and send it."""
    await frame.get_by_label(field, exact=True).fill(question)
    await frame.get_by_role("button", name=send, exact=True).click()


async def test_people_of_a_site_chat_in_its_pages(shop: Shop) -> None:
    server = shop.site.world.url
    shop.policy = f"default-src 'none'; script-src {server}; frame-src {server}; connect-src 'self'"
    async with shop.visit(shop.documented) as (page, frame):
        launcher = page.get_by_role("button", name="Ask the shop")
        assert [each.url for each in page.frames[1:]] == ["about:blank"]
        await launcher.click()
        await expect(frame.get_by_role("heading", name="Ask the shop")).to_be_visible()
        field = frame.get_by_label("Message", exact=True)
        await expect(field).to_be_focused()
        assert await frame.locator("select").count() == 0
        await screenshot(page, "embed-first-screen")
        await ask(frame, "When do you open?")
        await expect(frame.get_by_text("We open at nine.", exact=True)).to_be_visible()
        await expect(launcher).to_have_attribute("aria-expanded", "true")
        assert await accessibility_problems(page) == []
        await screenshot(page, "embed-answer")
        await frame.get_by_role("button", name="Edit and send again").click()
        await expect(frame.locator(".edit-question textarea")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(field).to_be_visible()
        await field.focus()
        await page.keyboard.press("Escape")
        await expect(launcher).to_be_focused()
        await expect(page.get_by_role("dialog")).to_be_hidden()

        await page.reload()
        await launcher.click()
        await expect(frame.get_by_text("When do you open?")).to_be_visible()
        await frame.get_by_role("button", name="New conversation").click()
        await expect(frame.get_by_text("When do you open?")).to_be_hidden()
        await ask(frame, "And on Sundays?")
        await expect(frame.get_by_text("We open at nine.", exact=True)).to_be_visible()
        chat = page.frames[1]
        assert await chat.evaluate(_KEPT) == [
            *("nothing", "nothing", ""),
            f"?graph=messages%3Aassistant&origin={shop.url.replace(':', '%3A').replace('/', '%2F')}&lang=en",
        ]

    _, key = await shop.site.world.services.accounts.create_key("acme", ("receipts:read",), name="reader")
    async with a_client(server, key) as reader:
        receipts = await until_shown(reader, "/v1/receipts", lambda shown: len(shown["items"]) == 2)
    assert [receipt["endUser"] for receipt in receipts["items"]] == ["ann", "ann"]

    async with shop.visit(shop.documented, user="ben") as (page, frame):
        await page.get_by_role("button", name="Ask the shop").click()
        await expect(frame.get_by_label("Message", exact=True)).to_be_visible()
        await expect(frame.get_by_text("When do you open?")).to_be_hidden()


async def test_a_site_gives_the_chat_its_look_and_another_token_when_one_has_expired(shop: Shop) -> None:
    shop.policy, shop.style = "", _STYLE
    expired = shop.token("ann", exp=int(time.time()) - 3600)
    hostile = (
        "{ground: 'url(//evil.example)', raised: 'var(--x)', radius: 'calc(9px * 9)', font: 'url(//evil)'}"
    )
    start = shop.program(
        f"""const tokens = ["{expired}"];
        Runtally.embed({{graph: "messages:assistant", position: "left", open: true,
          title: "Hilfe", lang: "de", theme: {{surface: "#1e201d", ...{hostile}}},
          token: async () => tokens.shift() ?? ask()}});"""
    )
    async with shop.visit(start, size=PHONE, complaints=["401"]) as (page, frame):
        await expect(frame.get_by_label("Nachricht", exact=True)).to_be_visible()
        assert await page.evaluate("document.activeElement.tagName") == "BODY"
        await ask(frame, "When do you open?", field="Nachricht", send="Senden")
        await expect(frame.get_by_text("We open at nine.").last).to_be_visible()
        picture = frame.get_by_role("img", name="Diagramm: Open, Closed, at six").last
        # In the colour of the site, which is dark, and so is all that it does not set.
        await expect(picture).to_have_attribute("src", re.compile("%231e201d"))
        looks: Any = await page.frames[1].evaluate(
            """() => {
              const style = getComputedStyle(document.documentElement);
              const names = ["accent", "radius", "ground", "raised", "font", "bad"];
              return names.map((name) => style.getPropertyValue(`--${name}`));
            }"""
        )
        assert looks == ["#8a1c4a", "10px", "#171816", "#2a2c28", looks[4], "#f2a096"]
        assert looks[4].startswith("system-ui")
        assert await accessibility_problems(page) == []
        await screenshot(page, "embed-phone-dark")
        await frame.get_by_role("button", name="Schließen").click()
        await expect(page.get_by_role("button", name="Hilfe")).to_be_focused()
        heard: Any = await page.evaluate("window.heard")
        assert [kind for kind, _ in heard] == ["open", "message", "close"]
        await page.evaluate("Runtally.destroy()")
        await expect(page.locator("iframe")).to_have_count(0)


async def test_a_token_that_expires_within_an_answer_is_renewed_once_the_site_gives_one(shop: Shop) -> None:
    hold, usual = Hold(index=5), shop.site.model.script
    shop.site.model.script = in_turn(Reply([Text("one two three four five")], hold=hold))
    shop.policy = ""
    # It is accepted for a minute longer: here for five seconds in all, which a busy machine may need before.
    soon = shop.token("cem", exp=int(time.time()) - 55)
    start = shop.program(
        f"""window.asked = 0;
        const token = async () => {{
          window.asked += 1;
          if (window.asked === 2) throw new Error("The site is busy.");
          return window.asked === 1 ? "{soon}" : ask();
        }};
        Runtally.embed({{graph: "messages:assistant", open: true, token}});"""
    )
    async with shop.visit(start, user="cem", complaints=["401", "the site gives no token"]) as (page, frame):
        await ask(frame, "Count")
        await hold.reached.wait()
        await expect(frame.get_by_text("one two")).to_be_visible()
        await page.wait_for_function("window.asked === 3")
        hold.until.set()
        await expect(frame.get_by_text("one two three four five", exact=True)).to_be_visible()
        await expect(frame.get_by_role("button", name="Answer again")).to_be_visible()
        assert await page.evaluate("window.asked") == 3
    shop.site.model.script = usual


@pytest.mark.parametrize(
    ("graph", "token", "words"),
    [
        ("messages:assistant", "'a.b.c'", "The sign-in of this site is not accepted here."),
        ("messages:assistant", "null?.x.y", "This site has not signed you in."),
        ("messages:mailer", "await ask()", "This agent is not available here."),
    ],
)
async def test_what_is_refused_is_said_in_words(shop: Shop, graph: str, token: str, words: str) -> None:
    shop.policy = ""
    start = shop.program(f"Runtally.embed({{graph: '{graph}', open: true, token: async () => {token}}});")
    async with shop.visit(start, complaints=["401", "the site gives no token"]) as (page, frame):
        await expect(frame.get_by_role("alert")).to_contain_text(words)
        await expect(frame.get_by_role("button", name="Try again")).to_be_visible()
        await page.wait_for_function("window.heard.some(([type]) => type === 'error')")


async def test_a_site_that_never_answers_is_not_waited_for(shop: Shop) -> None:
    shop.policy = ""
    start = shop.program("Runtally.embed({graph: 'messages:assistant', token: () => new Promise(() => {})});")
    async with shop.visit(start) as (page, frame):
        await page.clock.install()
        await page.get_by_role("button", name="Chat").click()
        await expect(frame.get_by_role("button", name="Close")).to_be_visible()
        await page.clock.fast_forward(30_000)
        await expect(frame.get_by_role("alert")).to_contain_text("This site has not signed you in.")


async def test_only_the_page_of_the_origin_reaches_the_frame(shop: Shop) -> None:
    server = shop.site.world.url
    shop.policy = ""
    attack = """<iframe title="Other" srcdoc="<script>
      setInterval(() => {
        for (let i = 0; i < parent.frames.length; i += 1)
          parent.frames[i].postMessage({runtally: 'settings', title: 'Taken over'}, '*');
        parent.postMessage({runtally: 'close'}, '*');
        document.title += '.';
      }, 20);</script>" sandbox="allow-scripts"></iframe>"""
    start = shop.program(
        "Runtally.embed({graph: 'messages:assistant', open: true, token: ask,"
        " title: 'Ours', scheme: 'dark'});"
    )
    async with shop.visit(start + attack, complaints=["frame"]) as (page, _):
        frame = page.frame_locator("iframe[title=Ours]")
        await expect(frame.get_by_label("Message", exact=True)).to_be_visible()
        other = next(each for each in page.frames if each.url == "about:srcdoc")
        await other.wait_for_function("document.title.length > 5")
        # Frames do not find the chat in its shadow tree; this window is none around it, either.
        await page.frames[1].evaluate(
            """() => new Promise((drawn) => {
              addEventListener("message", () => requestAnimationFrame(() => requestAnimationFrame(drawn)));
              postMessage({runtally: "settings", title: "Taken over"}, "*");
            })"""
        )
        await expect(frame.get_by_role("heading", name="Ours")).to_be_visible()
        await expect(page.get_by_role("dialog")).to_be_visible()
        assert await page.frames[1].evaluate("document.documentElement.style.colorScheme") == "dark"

    claimed = f"{server}/embed?graph=messages:assistant&origin={shop.url}"
    framing = f'<iframe src="{claimed}"></iframe>'
    async with shop.visit(framing, url=shop.other_url, complaints=["frame-ancestors"]) as (page, _):
        await page.wait_for_load_state()
        assert [each.url for each in page.frames[1:]] == ["chrome-error://chromewebdata/"]
    async with shop.visit(shop.documented, url=shop.other_url, complaints=["403"]) as (page, _):
        await page.get_by_role("button", name="Ask the shop").click()
        await expect(page.get_by_text("or is not open to this site")).to_be_visible()
        await screenshot(page, "embed-refused")
