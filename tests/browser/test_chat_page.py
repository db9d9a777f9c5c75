"""The chat page in a browser."""

import re
from typing import Any

import pytest
from playwright.async_api import Page, expect

from app.simulator.script import Answer, ApiRequest, Hold, HttpError, Reply, Text, ToolUse, in_turn
from tests.browser.site import (
    ASSISTANT,
    MAILER,
    PHONE,
    WORKER,
    Site,
    accessibility_problems,
    screenshot,
)
from tests.e2e.agents import MESSAGES
from tests.e2e.office import MAIL, TASK, office
from tests.e2e.stories import CLOCK, a_client, a_request, until_sent

pytestmark = pytest.mark.asyncio(loop_scope="session")

LEAD = "claude_agents:lead"


async def send(page: Page, text: str, *, graph: str | None = None) -> None:
    """Write a message and send it by keyboard."""
    if graph is not None:
        await page.get_by_label("Graph").select_option(graph)
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")


async def ended(page: Page, *, answers: int = 1) -> None:
    """Wait until so many answers are complete."""
    await expect(page.get_by_role("button", name="Fork from here")).to_have_count(answers)


async def test_an_answer_is_shown_while_it_streams(site: Site) -> None:
    hold = Hold(index=11)
    site.model.script = in_turn(
        Reply([Text("Let me look."), ToolUse(CLOCK, {"timezone": "Asia/Tokyo"})]),
        Reply([Text("It is late.\n\nIt is **ten to twelve** in Tokyo, and time for tea.")], hold=hold),
    )
    async with site.visit(await site.key()) as page:
        await expect(page.get_by_role("heading", name="New conversation")).to_be_visible()
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await screenshot(page, "chat-empty")
        await send(page, "What time is it in Tokyo?", graph=ASSISTANT)
        await hold.reached.wait()
        await expect(page.locator("strong", has_text="ten to twelve")).to_be_visible()
        await expect(page.get_by_text("time for tea")).to_have_count(0)
        await expect(page.get_by_text("Step 2 of 8")).to_be_visible()
        await screenshot(page, "chat-streaming")
        written = page.get_by_text("It is late.")
        await written.evaluate(_MARK)
        hold.until.set()
        await ended(page)
        # What is written already is not written again.
        await expect(written.first).to_have_attribute("data-marked", "yes")
        await expect(page.get_by_role("status").filter(has_text="Answer: It is late.")).to_be_attached()
        await expect(page.get_by_text(re.compile(r"^Cost \$0\.000"))).to_be_visible()
        await page.get_by_text("get current time").click()
        await expect(page.get_by_role("group", name="Result")).to_contain_text("+09:00")
        # It keeps no files, and says nothing of them.
        await expect(page.get_by_role("button", name="Files", exact=True)).to_have_count(0)
        await screenshot(page, "chat-answer")
        assert await accessibility_problems(page) == []


async def test_a_call_is_allowed_with_other_arguments_and_the_next_is_denied(site: Site) -> None:
    mail = {"to": "bob@example.org", "text": "Hello Bob"}
    site.model.script = in_turn(
        Reply([ToolUse(MAIL, mail)]), Reply([ToolUse(MAIL, mail)]), Reply([Text("So be it.")])
    )
    async with site.visit(await site.key(), complaints=["status of 422"]) as page:
        await send(page, "Write to Bob", graph=MAILER)
        await expect(page.get_by_text("Waiting for you to decide")).to_be_visible()
        await screenshot(page, "chat-consent")
        assert await accessibility_problems(page) == []
        assert office().sent == []
        await page.get_by_role("button", name="Change the arguments").click()
        await page.get_by_label("to", exact=True).fill("nobody")
        await page.get_by_role("button", name="Allow", exact=True).click()
        await expect(page.get_by_role("alert")).to_contain_text("to: ")
        await page.get_by_label("to", exact=True).fill("alice@example.org")
        await page.get_by_label("text", exact=True).fill("Hello Alice")
        await page.get_by_role("button", name="Allow", exact=True).click()
        await expect(page.get_by_text("alice@example.org · Hello Alice")).to_be_visible()

        await page.get_by_label("Reason for a denial").fill("Once is enough.")
        await page.get_by_role("button", name="Deny").click()
        await expect(page.get_by_text("So be it.").first).to_be_visible()
        await expect(page.locator(".tool-state")).to_have_text(["Done", "Denied"])

    assert office().sent == [("alice@example.org", "Hello Alice")]
    (denied,) = site.world.simulator.requests[-1].tool_results
    assert "Once is enough." in str(denied["content"])


async def test_a_message_is_sent_to_a_running_agent_which_is_then_stopped(site: Site) -> None:
    hold = Hold(index=6)
    site.model.script = in_turn(
        Reply([ToolUse(TASK)]), Reply([Text("Both of you are heard now")], hold=hold), HttpError(500)
    )
    key = await site.key()
    async with site.visit(key) as page, a_client(site.world.url, key.secret) as http:
        await send(page, "Begin", graph=WORKER)
        await office().working.wait()
        await expect(page.get_by_text("Using long task")).to_be_visible()
        await send(page, "And hurry")
        await expect(page.get_by_text("The agent receives it at its next step.")).to_be_visible()
        await screenshot(page, "chat-meanwhile")
        (run,) = (await http.get("/v1/runs")).json()["items"]
        await until_sent(site.world, run["runId"], key=key.secret)
        office().may_end.set()
        await hold.reached.wait()
        await expect(page.get_by_text("Both of you")).to_be_visible()
        await expect(page.get_by_text("The agent receives it")).to_have_count(0)
        await page.get_by_role("button", name="Stop").click()
        await expect(page.get_by_text("Stopped.").first).to_be_visible()
        await ended(page)
        await expect(page.get_by_role("button", name="Try again")).to_be_visible()
        await screenshot(page, "chat-stopped")
    hold.until.set()

    assert "And hurry" in str(site.world.simulator.requests[-1].body["messages"])


async def test_a_reloaded_tab_continues_to_show_the_answer(site: Site) -> None:
    hold = Hold(index=5)
    site.model.script = in_turn(Reply([Text("one two three four five")], hold=hold), Reply([Text("six")]))
    async with site.visit(await site.key(), complaints=["net::ERR_FAILED"]) as page:
        await send(page, "Count", graph=ASSISTANT)
        await hold.reached.wait()
        await expect(page.get_by_text("one two")).to_be_visible()
        assert "?conversation=" in page.url
        await page.reload()
        await expect(page.get_by_text("Count").last).to_be_visible()
        await expect(page.get_by_text("one two")).to_be_visible()
        await expect(page.get_by_role("button", name="Stop")).to_be_visible()
        await page.route("**/events?*", lambda route: route.abort())
        await page.reload()
        await expect(page.get_by_text("The connection is lost.")).to_be_visible()
        await page.unroute("**/events?*")
        hold.until.set()
        await expect(page.get_by_text("one two three four five").first).to_be_visible()
        await ended(page)

        await page.get_by_role("link", name="New conversation").click()
        await expect(page.get_by_role("heading", name="New conversation")).to_be_visible()
        await send(page, "Go on")
        await ended(page)
        await page.go_back()
        await page.get_by_role("navigation", name="Conversations").get_by_role("link", name="Count").click()
        await expect(page.get_by_role("heading", name="Count")).to_be_visible()
        await expect(page.get_by_text("one two three four five")).to_be_visible()
        await screenshot(page, "chat-past")


@pytest.mark.long
async def test_a_conversation_is_forked_and_deleted(site: Site) -> None:
    site.model.script = in_turn(*(Reply([Text(text)]) for text in ("I see.", "Tea it is.", "Coffee it is.")))
    async with site.visit(await site.key()) as page:
        await send(page, "I am Ada", graph=ASSISTANT)
        await ended(page)
        await send(page, "I like tea")
        await ended(page, answers=2)
        await page.get_by_role("button", name="Fork from here").first.click()
        await expect(page.get_by_text("Tea it is.")).to_have_count(0)
        await ended(page)
        await send(page, "I like coffee")
        await ended(page, answers=2)
        links = page.get_by_role("navigation", name="Conversations").get_by_role("link", name="I am Ada")
        await expect(links).to_have_count(2)
        received = str(site.world.simulator.requests[-1].messages)
        assert ("I am Ada" in received, "tea" in received) == (True, False)

        await page.get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("dialog", name="Delete this conversation?")).to_be_visible()
        await screenshot(page, "chat-delete")
        assert await accessibility_problems(page) == []
        await page.keyboard.press("Escape")
        await expect(links).to_have_count(2)
        await page.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(links).to_have_count(1)
        await expect(page.get_by_role("heading", name="New conversation")).to_be_visible()


@pytest.mark.long
async def test_actions_without_scope_are_not_offered(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("Hello.")]))
    reader = await site.key("runs:read")
    _, writer = await site.world.services.accounts.create_key(reader.account, ["runs:write", "runs:read"])
    async with a_client(site.world.url, writer, agent=MESSAGES) as http:
        await http.post("/v1/runs/wait", json=a_request("hi", stateKey="chat-1"))

    async with site.visit(reader, path="/?conversation=chat-1") as page:
        await expect(page.get_by_text("Hello.")).to_be_visible()
        await expect(page.get_by_text("may read conversations, but not write")).to_be_visible()
        for name in ("Send", "Delete", "Fork from here"):
            await expect(page.get_by_role("button", name=name)).to_have_count(0)
        await expect(page.get_by_text("Cost")).to_have_count(0)
        await expect(page.get_by_text("$")).to_have_count(0)


async def test_errors_are_shown_as_sentences(site: Site) -> None:
    site.model.script = in_turn(HttpError(402), Reply([Text("Better now.")]))
    key = await site.key()
    async with site.visit(key, complaints=["net::ERR_", "status of 40"]) as page:
        await send(page, "Hello", graph=ASSISTANT)
        await expect(page.get_by_text("provider cannot be reached, or it rejects").first).to_be_visible()
        await screenshot(page, "chat-failed")
        await page.context.set_offline(offline=True)
        await send(page, "Are you there?")
        await expect(page.get_by_role("alert")).to_contain_text("Check your connection")
        await expect(page.get_by_role("textbox", name="Message")).to_have_value("Are you there?")
        # The first request may find no connection yet.
        await page.route("**/v1/sessions?*", lambda route: route.abort(), times=1)
        await page.context.set_offline(offline=False)
        await expect(page.get_by_role("alert")).to_have_count(0)
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Better now.").first).to_be_visible()
        await expect(page.get_by_role("alert")).to_have_count(0)
        await page.goto("/?conversation=nope")
        await expect(page.get_by_role("alert")).to_contain_text("There is no such conversation")

        await site.world.services.accounts.revoke_key(key.id)
        await page.goto("/")
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


async def test_a_subagents_output_is_shown_in_its_call(site: Site) -> None:
    site.model.script = leading
    async with site.visit(await site.key()) as page:
        await send(page, "time?", graph=LEAD)
        await ended(page)
        for _ in range(2):
            await page.get_by_text("Subagent clock-watcher").click()
            inside = page.locator(".tool-inside")
            if await page.get_by_role("button", name="Show what it did").count():
                await page.get_by_role("button", name="Show what it did").click()
            await expect(inside.get_by_text("Let me look.")).to_be_visible()
            await expect(inside.get_by_text("get current time")).to_be_visible()
            await expect(inside.get_by_text("Ten to twelve.")).to_be_visible()
            await expect(page.get_by_text("It is late.").first).to_be_visible()
            await screenshot(page, "chat-subagent")
            await page.reload()


def leading(request: ApiRequest) -> Answer:
    first = len(request.messages) == 1
    if "You are the clock-watcher" in request.system:
        return Reply([Text("Let me look."), ToolUse(CLOCK)] if first else [Text("Ten to twelve.")])
    work = {"description": "time", "prompt": "What time is it?", "subagent_type": "clock-watcher"}
    return Reply([ToolUse("Agent", work)] if first else [Text("It is late.")])


@pytest.mark.long
async def test_a_queued_run_shows_its_position(site: Site) -> None:
    hold = Hold(index=4)
    site.model.script = in_turn(Reply([Text("one two")], hold=hold), Reply([Text("three")]))
    key = await site.key()
    async with a_client(site.world.url, key.secret, agent=MESSAGES) as http:
        for prompt in ("first", "second"):
            await http.post("/v1/runs", json=a_request(prompt, stateKey="chat-1"))
    await hold.reached.wait()

    async with site.visit(key, path="/?conversation=chat-1") as page:
        await expect(page.get_by_text("Waiting: next in line")).to_be_visible()
        await expect(page.get_by_text("second", exact=True)).to_be_visible()
        await screenshot(page, "chat-queued")
        hold.until.set()
        await ended(page, answers=2)
        await expect(page.get_by_text("Waiting")).to_have_count(0)


HOSTILE = """Look: <img src=x onerror="window.hacked=1"> and <script>window.hacked = 2</script>

<iframe src="https://evil.example.org"></iframe> <style>body { display: none }</style>

[click](javascript:window.hacked=3) [data](data:text/html,<script>hacked=4</script>) [fine](https://example.org/a?b=c)

![pixel](https://evil.example.org/pixel.png) ![](data:image/svg+xml,<svg/onload=window.hacked=5>)

<a href="javascript:window.hacked=6" onclick="window.hacked=7">x</a> <form action="/v1/runs"><input name=x>

| <b onmouseover=hacked=8>t</b> | u |
| --- | --- |
| 1 | 2 |

```html
<script>window.hacked = 9</script>
```
"""


async def test_a_hostile_answer_is_rendered_safely(site: Site) -> None:
    requested: list[str] = []
    site.model.script = in_turn(
        Reply([Text(HOSTILE)]), Reply([Text("x" * 3_000_000)]), Reply([Text("Still here.")])
    )
    async with site.visit(await site.key()) as page:
        page.on("request", lambda request: requested.append(request.url))
        for answers, text in enumerate(("Do harm", "Say a long word", "Are you well?"), 1):
            await send(page, text, graph=ASSISTANT)
            await ended(page, answers=answers)
        await expect(page.get_by_text("Still here.").first).to_be_visible()
        await expect(page.get_by_text("million characters more").first).to_be_visible()
        await page.reload()
        await ended(page, answers=3)
        await page.get_by_label("Conversation", exact=True).evaluate(_TO_THE_TOP)
        await screenshot(page, "chat-hostile")

        prose = page.locator(".prose").first
        assert await prose.locator("img, script, iframe, style, form, input, svg, b, [onclick]").count() == 0
        links = [await link.get_attribute("href") for link in await prose.locator("a[href]").all()]
        assert links == ["https://example.org/a?b=c", "https://evil.example.org/pixel.png"]
        assert await prose.locator("a[href]").first.get_attribute("rel") == "noopener noreferrer"
        assert await page.evaluate(_HACKED) is None
        assert await accessibility_problems(page) == []

    assert {url.partition("/v1")[0].partition("/assets")[0].partition("?")[0] for url in requested} <= {
        site.world.url,
        f"{site.world.url}/",
    }


@pytest.mark.long
async def test_the_chat_fits_a_phone_in_dark_mode(site: Site) -> None:
    site.model.script = in_turn(
        Reply([Text("Let me look."), ToolUse(CLOCK, {"timezone": "Asia/Tokyo"})]), Reply([Text(RICH)])
    )
    async with site.visit(await site.key(), size=PHONE, dark=True) as page:
        await send(page, "What time is it in Tokyo, and how do I find that out myself?", graph=ASSISTANT)
        await ended(page)
        await expect(page.get_by_text("Cost")).to_be_visible()
        await screenshot(page, "chat-phone-dark")
        assert await accessibility_problems(page) == []
        conversations = page.get_by_role("navigation", name="Conversations")
        await expect(conversations).to_be_hidden()
        await page.get_by_role("button", name="Conversations").click()
        await expect(conversations.get_by_role("link", name="What time")).to_be_visible()
        await screenshot(page, "chat-phone-drawer")
        assert await accessibility_problems(page) == []
        await conversations.get_by_role("link", name="New conversation").click()
        await expect(conversations).to_be_hidden()
        width: Any = await page.evaluate(_WIDTH)
        assert width <= PHONE[0]


RICH = """### In Tokyo

It is **ten to twelve**. You can ask for it yourself:

```python
from datetime import datetime
from zoneinfo import ZoneInfo

print(datetime.now(ZoneInfo("Asia/Tokyo")).isoformat(timespec="seconds"))
```

1. Install Python
2. Run the program
   * with `python3 time.py`

| City | Time | Offset | Season | Daylight saving |
| --- | --- | --- | --- | --- |
| Tokyo | 23:50 | +09:00 | autumn | never |

> Time is what keeps everything from happening at once.
"""

_MARK = "element => { element.dataset.marked = 'yes' }"
_TO_THE_TOP = "element => { element.scrollTop = 0 }"
_HACKED = "() => window.hacked ?? null"
_WIDTH = "() => document.documentElement.scrollWidth"
