"""The events of a run reach a page across everything that breaks its connection."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Route, expect

from app.platform.embedded.ports import free_port
from app.simulator.script import ApiRequest, Hold, Reply, Text, in_turn
from app.simulator.server import Simulator
from tests.browser.site import ASSISTANT, Site
from tests.browser.test_chat_page import ended, send
from tests.conftest import a_database
from tests.e2e.agents import MESSAGES, named_by_caller
from tests.e2e.office import settings
from tests.e2e.servers import a_server
from tests.e2e.stories import KEY, a_client
from tests.patience import PATIENCE_S, until_shown

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOST = "The connection is lost."
_FIRST = "retry: 2000\n"


def frame(position: int, kind: str = "text_delta") -> str:
    """An event as the server sends it."""
    return f'id: {position}\nevent: {kind}\ndata: {{"type":"{kind}","delta":"{position}"}}\n\n'


async def followed(site: Site, *answers: str | int | None, heard: int) -> list[list[Any]]:
    """What a page hears of a run until it has heard so much, how long it pauses, and what it asks after.

    The server answers with the text of a stream, a status, or None: not at all. Pauses take no time.
    """
    left: Iterator[str | int | None] = iter(answers)
    asked: list[int] = []

    async def answer(route: Route) -> None:
        asked.append(int(route.request.url.rpartition("after=")[2]))
        match next(left):
            case None:
                await route.abort("connectionreset")
            case 204:
                await route.fulfill(status=204)
            case int(status):
                await route.fulfill(status=status, json={"code": f"is-{status}"})
            case str(body):
                await route.fulfill(body=body, content_type="text/event-stream")

    async with site.visit(path="/healthz", complaints=["status of", "net::ERR"]) as page:
        await page.route("**/v1/runs/*/events?*", answer)
        return [*await page.evaluate(_FOLLOW, heard), asked]


async def test_what_has_come_is_not_asked_for_again_and_the_server_says_when_to_ask(site: Site) -> None:
    heard, pauses, asked = await followed(
        site,
        _FIRST + frame(1) + frame(2) + frame(3)[:-12],
        None,
        429,
        # A heartbeat is a line without an event of its own; the last line is of a server that stops.
        f":\n{_FIRST}{frame(2)}:\n{frame(3)}retry: 1500\n",
        *(503, 503, 503, 503),
        _FIRST + frame(4, "done"),
        heard=15,
    )

    assert asked == [0, 2, 2, 2, *[3] * 5]
    assert heard == ["there", "1", "2", *["lost"] * 3, "there", "3", *["lost"] * 5, "there", "4"]
    assert pauses == [2000, 4000, 8000, 1500, 3000, 6000, 10_000, 10_000]


@pytest.mark.parametrize(
    ("status", "last"), [(401, "is-401"), (403, "is-403"), (410, "is-410"), (204, "there")]
)
async def test_what_cannot_go_on_is_not_tried_again(site: Site, status: int, last: str) -> None:
    heard, pauses, asked = await followed(site, _FIRST + frame(1), status, heard=4)

    assert heard == ["there", "1", "lost", last]
    assert pauses == [2000]
    assert asked == [0, 1]


async def test_a_silent_connection_is_left_and_a_page_that_is_back_asks_at_once(site: Site) -> None:
    async with site.visit(path="/healthz") as page:
        heard, asked, waiting = await page.evaluate(_SILENT)

    # The first one says nothing more, the second one fails, and the page asks again before its pause is over.
    assert heard == ["there", "1", "lost", "there", "2"]
    assert asked == ["0", "1", "1"]
    assert waiting == [45_000]


async def test_a_revoked_key_ends_a_stream_and_asks_to_sign_in(site: Site) -> None:
    hold = Hold(index=5)
    site.model.script = in_turn(Reply([Text("one two three four")], hold=hold))
    key = await site.key()
    async with site.visit(key, complaints=["status of 401"]) as page:
        await send(page, "Count", graph=ASSISTANT)
        await hold.reached.wait()
        await expect(page.get_by_text("one two")).to_be_visible()
        await site.world.services.accounts.revoke_key(key.id)
        await expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        await expect(page.get_by_role("status")).to_contain_text("Your session has ended")
    hold.until.set()


async def test_a_page_that_stands_still_catches_up(site: Site) -> None:
    """Hidden, whose timers do not run; of two runs, one is connected then, and one is not."""
    for is_connected in (True, False):
        hold = Hold(index=5)
        site.model.script = in_turn(Reply([Text("one two three four five")], hold=hold))
        key = await site.key()
        async with (
            site.visit(key, complaints=["net::ERR"]) as page,
            a_client(site.world.url, key.secret) as http,
        ):
            if not is_connected:
                await page.route("**/events?*", lambda route: route.abort())
            await send(page, "Count", graph=ASSISTANT)
            await hold.reached.wait()
            await expect(page.get_by_text("one two" if is_connected else LOST)).to_be_visible()
            debugger = await page.context.new_cdp_session(page)
            await debugger.send("Page.setWebLifecycleState", {"state": "frozen"})
            await page.unroute_all()
            hold.until.set()
            (run,) = (await http.get("/v1/runs")).json()["items"]
            await until_shown(http, f"/v1/runs/{run['runId']}", lambda found: found["final"] is not None)
            await debugger.send("Page.setWebLifecycleState", {"state": "active"})
            await expect(page.get_by_text("one two three four five").first).to_be_visible()
            await ended(page)


@pytest.mark.long
async def test_a_page_goes_on_when_its_server_was_killed_and_is_back(
    postgres: str, browser: Browser, tmp_path: Path
) -> None:
    hold = Hold(index=5)

    def respond(request: ApiRequest) -> Reply:
        asked.append(request)
        return (
            Reply([Text("one two three four")], hold=hold) if len(asked) == 1 else Reply([Text("all of it")])
        )

    asked: list[ApiRequest] = []
    port = ("--port", str(free_port()))
    given: dict[str, Any] = {name: str(value) for name, value in settings(tmp_path).items()}
    async with a_database(postgres) as url, Simulator(named_by_caller(respond)) as simulator:
        given |= {"DATABASE_URL": url, "RUNTALLY_LEASE_S": "1"}
        async with a_server(tmp_path, simulator.url, options=port, **given) as (server, http):
            profile = await browser.new_context(base_url=str(http.base_url))
            profile.set_default_timeout(PATIENCE_S * 1000)
            response = await profile.request.post("/v1/browser-session", data={"apiKey": KEY})
            assert response.ok
            page = await profile.new_page()
            await page.goto("/")
            await send(page, "Count", graph=f"{MESSAGES}:worker")
            await hold.reached.wait()
            await expect(page.get_by_text("one two")).to_be_visible()
            server.kill()
            await expect(page.get_by_text(LOST)).to_be_visible()
        async with a_server(tmp_path, simulator.url, options=port, **given):
            await expect(page.get_by_text("all of it").first).to_be_visible()
            await expect(page.get_by_text(LOST)).to_have_count(0)
            await ended(page)
            await profile.close()
    hold.until.set()


_FOLLOW = """async (wanted) => {
  const { followRun } = await import("/assets/runs/event_stream.js");
  const heard = [], pauses = [];
  const { setTimeout } = window;
  window.setTimeout = (next, pause) => {
    // The page around it has shorter ones of its own; longer ones are for connections that say nothing.
    if (!(pause >= 1000 && pause <= 10_000)) return setTimeout(next, pause);
    pauses.push(pause);
    return setTimeout(next);
  };
  return new Promise((resolve) => {
    const hear = (what) => {
      // What follows at once belongs to it.
      if (heard.push(what) === wanted) setTimeout(() => resolve([heard, pauses]));
    };
    followRun("run", {
      onEvent: ({ delta }) => hear(delta),
      onConnection: (isLost) => hear(isLost ? "lost" : "there"),
      onFailure: ({ code }) => hear(code),
    });
  });
}"""

_SILENT = """async () => {
  const { followRun } = await import("/assets/runs/event_stream.js");
  const heard = [], asked = [], waiting = [];
  let held = null;
  const { setTimeout } = window;
  window.setTimeout = (next, pause) => {
    if (!(pause >= 500)) return setTimeout(next, pause);
    held = () => waiting.push(pause) && next();
  };
  const frame = (id, type) => `id: ${id}\\ndata: {"type":"${type}","delta":"${id}"}\\n\\n`;
  const answers = [frame(1, "text_delta"), null, frame(2, "done")];
  window.fetch = async (url) => {
    asked.push(new URL(url).searchParams.get("after"));
    const text = answers[asked.length - 1];
    if (text === null) throw new TypeError("There is no network.");
    const start = (stream) => stream.enqueue(new TextEncoder().encode(text));
    return new Response(new ReadableStream({ start }));
  };
  const back = () => dispatchEvent(new Event("online"));
  return new Promise((resolve) => {
    const hear = (what) => {
      heard.push(what);
      if (what === "1") setTimeout(() => (back(), held()));
      const end = () => resolve([heard, asked, waiting]);
      if (what === "lost") setTimeout(() => (back(), setTimeout(() => asked.length === 3 || end())));
      if (what === "2") setTimeout(() => (back(), end()));
    };
    followRun("run", {
      onEvent: ({ delta }) => hear(delta),
      onConnection: (isLost) => hear(isLost ? "lost" : "there"),
      onFailure: ({ code }) => hear(code),
    });
  });
}"""
