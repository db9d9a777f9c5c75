"""Signing in Claude Code in a browser."""

from typing import Any

import httpx
import pytest
from playwright.async_api import expect

from tests.browser.site import PHONE, Site, accessibility_problems, screenshot

pytestmark = pytest.mark.asyncio(loop_scope="session")

OAUTH = "/anthropic/oauth"
GRANT = "urn:ietf:params:oauth:grant-type:device_code"


async def begun(device: httpx.AsyncClient) -> dict[str, Any]:
    answer = await device.post(f"{OAUTH}/device_authorization", data={"surface": "claude_code"})
    found: dict[str, Any] = answer.raise_for_status().json()
    return found


async def asked(device: httpx.AsyncClient, codes: dict[str, Any]) -> dict[str, Any]:
    form = {"grant_type": GRANT, "device_code": codes["device_code"]}
    found: dict[str, Any] = (await device.post(f"{OAUTH}/token", data=form)).json()
    return found


async def test_a_person_allows_and_denies_what_they_have_begun(site: Site) -> None:
    key = await site.key("external:write")
    headers = {"user-agent": "<b>claude-code</b>/2.1.230"}
    async with (
        httpx.AsyncClient(base_url=site.world.url, headers=headers, trust_env=False, timeout=60) as device,
        site.visit(key, path="/device", size=PHONE, dark=True, complaints=["status of 404"]) as page,
    ):
        first, second = await begun(device), await begun(device)
        await page.goto(first["verification_uri_complete"])
        await expect(page.get_by_label("The code that Claude Code shows")).to_have_value(first["user_code"])
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_text("<b>claude-code</b>/2.1.230")).to_be_visible()
        await screenshot(page, "device")
        assert await accessibility_problems(page) == []
        await page.get_by_role("button", name="Allow").click()
        await expect(page.get_by_text("It is signed in.")).to_be_visible()

        await page.goto("/device")
        await page.get_by_label("The code that Claude Code shows").fill("bbbb bbbb")
        await page.get_by_role("button", name="Continue").click()
        await expect(page.get_by_role("alert")).to_contain_text("No login with this code")
        await page.get_by_label("The code that Claude Code shows").fill(second["user_code"].lower())
        await page.get_by_role("button", name="Continue").click()
        await page.get_by_role("button", name="Deny").click()
        await expect(page.get_by_text("It was not signed in.")).to_be_visible()
        allowed, denied = await asked(device, first), await asked(device, second)

    assert (allowed["email"], denied["error"]) == (key.account, "access_denied")
