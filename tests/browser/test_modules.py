"""What is easier to see of the pages' modules by themselves than on a page."""

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Route

from tests.browser.site import Site
from tests.e2e.stories import PATIENCE_S

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_dollars_are_added_exactly(site: Site) -> None:
    async with site.visit() as page:
        sums: Any = await page.evaluate(_SUMS)

    assert sums == ["0.3000000000", None, "12345678901234567890.1000000001", "$0.0032", "$12.35", "$0.00"]


async def test_whoever_leaves_while_the_server_is_away_does_not_come_back(site: Site) -> None:
    opened: list[str] = []
    asking = {name: asyncio.Event() for name in ("left", "stays")}
    may_answer = asyncio.Event()

    async def events(route: Route) -> None:
        opened.append("left" if "/left/" in route.request.url else "stays")
        await route.fulfill(status=503)

    async def run(route: Route) -> None:
        asking[route.request.url.rpartition("/")[2]].set()
        await may_answer.wait()
        await route.fulfill(status=503)

    async with site.visit(complaints=["status of 503"]) as page:
        await page.route("**/v1/runs/*/events?*", events)
        await page.route(re.compile("/v1/runs/(left|stays)$"), run)
        await page.evaluate(_FOLLOW)
        for asked in asking.values():
            await asked.wait()
        await page.evaluate("() => window.leave()")
        may_answer.set()
        # Whoever stays comes back again and again, the other would have been first.
        async with asyncio.timeout(PATIENCE_S):
            while opened.count("stays") < 3:
                await asyncio.sleep(0.02)

    assert opened.count("left") == 1


_SUMS = """async () => {
  const { dollars, total } = await import("/assets/chat/cost.js");
  return [
    total(["0.1", "0.2000000000"]),
    total(["0.1", null]),
    total(["12345678901234567890.1", "0.0000000001"]),
    ...["0.0031500001", "12.345678", "0"].map(dollars),
  ];
}"""
_FOLLOW = """async () => {
  const { follow } = await import("/assets/stream.js");
  const ears = { hear() {}, lost() {}, failed() {} };
  window.leave = follow("left", ears);
  follow("stays", ears);
}"""
