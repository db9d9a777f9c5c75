"""A frontend of another project: what a person writes and sees, what the model received, what is billed."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlencode

import httpx
from playwright.async_api import BrowserContext, FilePayload, Page, expect

from app.requests.principal import SCOPES
from app.simulator.script import Answer, ApiRequest, Reply, Responder, Text, text_of
from tests.browser.site import Model
from tests.e2e.agents import CLAUDE, MESSAGES
from tests.e2e.stories import World, a_client
from tests.patience import PATIENCE_S

ASSISTANT, MAILER, WITH_CLI, CLIENT_TOOLS = "assistant", "mailer", "with-cli", "with-tools"
THINKER = "thinker"
GRAPHS = {
    ASSISTANT: f"{MESSAGES}:assistant",
    MAILER: f"{MESSAGES}:mailer",
    WITH_CLI: f"{CLAUDE}:assistant",
    CLIENT_TOOLS: f"{MESSAGES}:with-tools",
    THINKER: f"{MESSAGES}:thinker",
    # CopilotKit has its suggestions made by this one.
    "default": f"{MESSAGES}:with-tools",
}

GRACE_S = 3.0
"""How long a run waits for a page to come back, if it is to be cancelled without one."""

_numbers = itertools.count(1)
_MOST_TRIES, _TRY_MS = 40, 500


@dataclass(frozen=True, slots=True)
class Client:
    """A page, and where its parts are on the screen."""

    page: str
    texts: str = "article p"
    """The texts of messages, in their order."""
    tools: str = "article section"
    box: str = "[aria-label=Message]"
    errors: str = "[role=alert]"
    stop: str = "button:text-is('Stop')"


USE_CHAT = Client("use_chat")
USE_CHAT_6 = Client("use_chat_6")
USE_CHAT_5 = Client("use_chat_5")
USE_CHAT_TOOLS, USE_CHAT_TOOLS_5 = Client("use_chat_tools"), Client("use_chat_tools_5")
ASSISTANT_UI_AI_SDK = Client("assistant_ui_ai_sdk")
ASSISTANT_UI_AG_UI = Client("assistant_ui_ag_ui")
COPILOT_KIT = Client(
    "copilotkit",
    texts="[data-testid=copilot-user-message], [data-testid=copilot-assistant-message] p",
    tools="[data-testid=copilot-chat] section",
    box="[data-testid=copilot-chat-textarea]",
    errors="button:text-is('Show Details')",
    stop="[data-testid=copilot-send-button]",
)
AG_UI = [ASSISTANT_UI_AG_UI, COPILOT_KIT]


def name_of(value: object) -> str | None:
    """The name of a test's case."""
    return value.page if isinstance(value, Client) else None


@dataclass(slots=True)
class Received:
    """The script of a model, with what it received and what it answered."""

    script: Responder
    requests: list[ApiRequest] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)

    def __call__(self, request: ApiRequest) -> Answer:
        """Answer as the script says."""
        self.requests.append(request)
        answer = self.script(request)
        assert isinstance(answer, Answer)
        self.answers.append(answer)
        return answer

    def conversation(self, index: int = -1) -> list[tuple[str, str]]:
        """Roles and texts of a request's messages; those without text are left out."""
        messages = [(m["role"], text_of(m["content"])) for m in self.requests[index].messages]
        return [(role, text) for role, text in messages if text]

    @property
    def tokens(self) -> tuple[int, int]:
        """Input and output tokens of all complete answers, as the API reports them."""
        replies = [answer for answer in self.answers if isinstance(answer, Reply)]
        return (
            sum(reply.usage["input_tokens"] for reply in replies),
            sum(reply.final_usage["output_tokens"] for reply in replies),
        )


@dataclass(frozen=True, slots=True)
class Frontend:
    """A page in a browser, and the account it works for."""

    page: Page
    client: Client
    received: Received
    http: httpx.AsyncClient
    thread: str

    async def send(self, text: str) -> None:
        """Write a message and send it by keyboard."""
        box = self.page.locator(self.client.box)
        # A page that is not ready, or still busy with the last answer, ignores the key or takes it as text.
        for is_last in (*[False] * _MOST_TRIES, True):
            await box.fill(text)
            await box.press("Enter")
            try:
                await expect(box).to_be_empty(timeout=_TRY_MS)
            except AssertionError:
                if is_last:
                    raise
            else:
                return

    async def shows(self, *texts: str) -> None:
        """Wait until the conversation's texts are these."""
        await expect(self.page.locator(self.client.texts)).to_have_text(list(texts))

    async def shows_tools(self, *texts: str) -> None:
        """Wait until so many tool calls are shown, with these parts of their texts."""
        await expect(self.page.locator(self.client.tools)).to_contain_text(list(texts))

    async def press(self, name: str, *, which: int = -1) -> None:
        """Press the last button of this name, or another one."""
        await self.page.get_by_role("button", name=name, exact=True).nth(which).click()

    async def stop(self) -> None:
        """Press the button that stops an answer."""
        await self.page.locator(self.client.stop).click()

    async def attach(self, *files: FilePayload) -> None:
        """Add files to the message that is being written."""
        if self.client not in {ASSISTANT_UI_AI_SDK, ASSISTANT_UI_AG_UI}:
            await self.page.locator("input[type=file]").first.set_input_files(list(files))
            return
        for file in files:
            async with self.page.expect_file_chooser() as chooser:
                await self.press("Attach")
            await (await chooser.value).set_files([file])

    async def edit(self, text: str, *, which: int = -1) -> None:
        """Change one of the person's messages, by default the last."""
        await self.press("Edit", which=which)
        if self.client in {ASSISTANT_UI_AI_SDK, ASSISTANT_UI_AG_UI}:
            await self.page.get_by_label("Edited message").fill(text)
            await self.press("Save")
        else:
            await self.send(text)

    async def screen(self) -> str:
        """The texts of the conversation as the screen shows them, in one line."""
        return " ".join(" ".join(await self.page.locator(self.client.texts).all_inner_texts()).split())

    async def model_received_the_screen(self) -> None:
        """Check that the last request and its answer are what the screen shows, no more and no less."""
        answer = self.received.answers[-1]
        assert isinstance(answer, Reply)
        texts = [text for _, text in self.received.conversation()]
        texts += [block.text for block in answer.blocks if isinstance(block, Text)]
        assert " ".join(" ".join(texts).split()) == await self.screen()

    async def ended(self, run_id: str) -> None:
        """Wait for the end of one of the account's runs."""
        await self.http.get(f"/v1/runs/{run_id}/events")

    async def billed(self) -> tuple[int, int]:
        """Input and output tokens of the account's receipts, once its runs have ended."""
        async with asyncio.timeout(PATIENCE_S):
            while any(run["endedAt"] is None for run in await self._items("/v1/runs")):
                await asyncio.sleep(0.05)
        items = await self._items("/v1/receipts")
        return sum(item["inputTokens"] for item in items), sum(item["outputTokens"] for item in items)

    async def statuses(self) -> list[str]:
        """Of the account's runs, the last first."""
        return [run["status"] for run in await self._items("/v1/runs")]

    async def _items(self, path: str) -> list[dict[str, Any]]:
        response = (await self.http.get(path)).raise_for_status()
        items: list[dict[str, Any]] = response.json()["items"]
        return items


@dataclass(frozen=True, slots=True)
class Frontends:
    """A running server, its model, the pages' server and a browser profile.

    Stories share the profile, because a page in a new one costs a second more; each has a tab, an account
    and a conversation of its own.
    """

    world: World
    model: Model
    profile: BrowserContext
    pages: str

    @asynccontextmanager
    async def visit(
        self, client: Client, script: Responder, *, graph: str = ASSISTANT, **options: Any
    ) -> AsyncIterator[Frontend]:
        """Open a client's page with its own account and conversation; `options` go into its address."""
        number = next(_numbers)
        scopes = tuple(scope for scope in SCOPES if scope != "admin")
        _, key = await self.world.services.accounts.create_key(f"person-{number}", scopes, name="a page's")
        self.model.script = received = Received(script)
        async with a_client(self.world.url, key) as http:
            thread = f"thread-{number}"
            address = self._address(client, key, graph, thread, options)
            async with a_page(self.profile, address) as page:
                yield Frontend(page, client, received, http, thread)

    @asynccontextmanager
    async def second_device(self, first: Frontend) -> AsyncIterator[Frontend]:
        """Open the same conversation in another browser profile, which loads it from the server."""
        key = first.http.headers["Authorization"].removeprefix("Bearer ")
        address = self._address(first.client, key, ASSISTANT, first.thread, {"load": "yes"})
        browser = self.profile.browser
        assert browser is not None
        async with await browser.new_context() as profile, a_page(profile, address) as page:
            yield replace(first, page=page)

    def _address(self, client: Client, key: str, graph: str, thread: str, options: dict[str, Any]) -> str:
        chosen = graph if client is COPILOT_KIT else GRAPHS[graph]
        given = {"url": self.world.url, "key": key, "graph": chosen, "thread": thread, **options}
        return f"{self.pages}/{client.page}?{urlencode(given)}"


@asynccontextmanager
async def a_page(profile: BrowserContext, address: str) -> AsyncIterator[Page]:
    """A tab of a browser profile, at an address."""
    async with await profile.new_page() as page:
        page.set_default_timeout(PATIENCE_S * 1000)
        await page.goto(address)
        yield page
