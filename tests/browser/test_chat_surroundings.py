"""What surrounds a chat: keys, the context meter, what was said elsewhere, very long conversations."""

import json
import re

import pytest
from playwright.async_api import expect

from app.simulator.script import Reply, Text, in_turn
from tests.browser.site import ASSISTANT, Site, accessibility_problems, screenshot
from tests.browser.test_chat_page import ended, send
from tests.browser.test_hostile_answers import MAX_TASK_MS, longest_task_ms
from tests.e2e.stories import a_client, a_request

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_keys_reach_what_is_used_most_and_are_listed(site: Site) -> None:
    site.model.script = in_turn(Reply([Text("It is so.")]))
    async with site.visit(await site.key()) as page:
        await send(page, "Is it so?", graph=ASSISTANT)
        await ended(page)
        await page.keyboard.press("Control+k")
        await expect(page.get_by_label("Search in conversations")).to_be_focused()
        await page.keyboard.press("Shift+Escape")
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await page.keyboard.press("Control+/")
        keys = page.get_by_role("dialog", name="Keys")
        await expect(keys).to_contain_text("Search in conversations")
        assert await accessibility_problems(page) == []
        await screenshot(page, "chat-keys")
        await page.keyboard.press("Control+Shift+O")
        await page.keyboard.press("Escape")
        await expect(keys).to_have_count(0)
        assert "conversation=" in page.url
        await page.keyboard.press("Control+Shift+O")
        await expect(page.get_by_role("heading", name="New conversation")).to_be_visible()
        assert "conversation=" not in page.url
        await page.get_by_role("button", name="Keys").click()
        await expect(keys).to_be_visible()


async def test_how_full_the_context_is_is_shown_at_once_and_later(site: Site) -> None:
    usage = {"input_tokens": 899_980, "output_tokens": 1}
    site.model.script = in_turn(Reply([Text("Long.")], usage=usage, final_usage={"output_tokens": 20}))
    async with site.visit(await site.key()) as page:
        await send(page, "Is it long?", graph=ASSISTANT)
        meter = page.get_by_role("meter", name="90% of the context is used: 900,000 of 1,000,000 tokens")
        await expect(meter).to_have_js_property("value", 900_000)
        await page.reload()
        await expect(meter).to_be_visible()
        await page.get_by_role("button", name="Details").click()
        details = page.get_by_role("group", name="Details of this answer")
        await expect(details).to_contain_text("Context900,000 of 1,000,000 tokens")
        await screenshot(page, "chat-context")
        assert await accessibility_problems(page) == []


async def test_what_was_said_elsewhere_is_there_when_a_page_is_back(site: Site) -> None:
    site.model.script = in_turn(*(Reply([Text(f"Answer {number}.")]) for number in range(1, 4)))
    key = await site.key()
    async with (
        site.visit(key, complaints=["status of 404"]) as page,
        a_client(site.world.url, key.secret) as http,
    ):
        await send(page, "First?", graph=ASSISTANT)
        await ended(page)
        found = re.search("conversation=([0-9a-f]+)", page.url)
        assert found is not None
        for question, key_of in (("Second?", found[1]), ("Another?", "of-another-device")):
            request = a_request(question, graphId=ASSISTANT, stateKey=key_of)
            (await http.post("/v1/runs/wait", json=request)).raise_for_status()
        await page.evaluate('dispatchEvent(new Event("online"))')
        await expect(page.locator(".prose")).to_have_text(["Answer 1.", "Answer 2."])
        await expect(page.get_by_role("link", name="Another?")).to_be_visible()
        (await http.delete(f"/v1/sessions/{found[1]}")).raise_for_status()
        await page.evaluate('dispatchEvent(new Event("online"))')
        await expect(page.get_by_role("alert")).to_contain_text("There is no such conversation")
        await expect(page.locator(".prose")).to_have_count(0)


async def test_ten_thousand_messages_do_not_hold_the_page_up(site: Site) -> None:
    async with site.visit(await site.key()) as page:
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await page.evaluate(_DRAW, 5_000)
        turns = page.locator(".turn")
        await expect(turns).to_have_count(50)
        browser = page.context.browser
        assert browser is not None
        await browser.start_tracing(page=page, categories=["toplevel", "devtools.timeline"])
        await page.evaluate(_SCROLL)
        trace = json.loads(await browser.stop_tracing())
        earlier = page.get_by_role("button", name="Show earlier messages")
        await earlier.scroll_into_view_if_needed()
        before = await turns.first.bounding_box()
        await earlier.click()
        await expect(turns).to_have_count(100)
        await expect(turns.nth(49)).to_contain_text("Question 4949")
        await page.evaluate(_SCROLLED_DOWN)
        after = await turns.nth(50).bounding_box()

    assert longest_task_ms(trace["traceEvents"]) < MAX_TASK_MS
    assert before is not None
    assert after is not None
    assert abs(after["y"] - before["y"]) < 60


# The policy of the page lets `wait_for_function` look once only: later looks are `eval`.
_SCROLLED_DOWN = """() => new Promise((scrolled) => {
  const list = document.querySelector(".scroll");
  const look = () => (list.scrollTop > 1000 ? scrolled() : requestAnimationFrame(look));
  look();
})"""
_DRAW = """async (count) => {
  const { html, render } = await import("/assets/html.js");
  const { RunState } = await import("/assets/runs/run_state.js");
  const { ConversationPane } = await import("/assets/chat/pane.js");
  const turns = Array.from({ length: count }, (_, index) => {
    const run = Object.assign(new RunState(`run-${index}`), { done: true, finishReason: "stop" });
    const content = `Answer **${index}**.\\n\\n- one\\n- two\\n\\n~~~python\\nprint(${index})\\n~~~\\n`;
    run.addStoredMessage({ type: "assistant_message", content, messageId: `m-${index}` });
    const graphId = "messages:assistant";
    return { runId: run.runId, question: `Question ${index}`, run, costUsd: "0.001", graphId };
  });
  const conversation = { key: "long", turns, branches: [], open: [], context: null };
  const graphs = { graphs: [], graphId: null };
  const attachments = { files: [], ready: true, add() {} };
  const place = document.querySelector("#app");
  render(null, place);
  const actions = { nameOfAgent: (graphId) => graphId, send: null };
  const nothing = { choices: null, listKeys: null, draftName: null, problem: "", announcement: "" };
  const given = { ...nothing, conversation, graphs, attachments, actions, head: () => null };
  window.draw = () => render(
    html`<div class="chat"><nav></nav><${ConversationPane} ...${given} /></div>`,
    place,
  );
  window.draw();
}"""

# As a person does, while something is drawn again and again.
_SCROLL = """async () => {
  const place = document.querySelector(".scroll");
  for (let frame = 0; frame < 60; frame += 1) {
    place.scrollTop -= 300;
    setTimeout(window.draw);
    await new Promise(requestAnimationFrame);
  }
}"""
