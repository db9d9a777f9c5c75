"""Signing in at an issuer, in a browser."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, expect

from app.platform.issuers.persons import CALLBACK
from app.simulator.script import Reply, Text
from tests.browser.site import ASSISTANT, Model, a_site, accessibility_problems, in_its_own_task, screenshot
from tests.browser.test_chat_page import send
from tests.e2e.agents import named_by_caller
from tests.e2e.stories import a_world
from tests.oidc_provider import a_provider

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_person_signs_in_at_the_issuer(browser: Browser, database_url: str, tmp_path: Path) -> None:
    model = Model(lambda _: Reply([Text("Good morning, Ann.")]))
    async with a_provider() as provider:

        def come_back_to(url: str) -> str:
            provider.redirect_url = f"{url}{CALLBACK}"
            return provider.redirect_url

        settings: dict[str, Any] = {**provider.settings(), "RUNTALLY_OIDC_REDIRECT_URL": come_back_to}
        served = a_world(tmp_path, database_url, named_by_caller(model), **settings)
        async with in_its_own_task(served) as world, a_site(world, model, browser) as site:
            await world.services.accounts.create_account("acme")
            async with site.visit(path="/?graph=x") as page:
                begin = page.get_by_role("link", name=f"Sign in with {provider.url.removeprefix('http://')}")
                await expect(begin).to_be_visible()
                await screenshot(page, "sign-in-with-an-issuer")
                assert await accessibility_problems(page) == []
                provider.answers = {"error": "access_denied"}
                await begin.click()
                await expect(page.get_by_text("The issuer has not signed you in.")).to_be_visible()

                provider.answers = {}
                await begin.click()
                await page.get_by_text("Ann").first.click()
                await expect(page.get_by_text("user", exact=True)).to_be_visible()
                links = page.get_by_role("navigation", name="Pages").get_by_role("link")
                assert await links.all_inner_texts() == ["Chat", "Approvals"]
                await screenshot(page, "who-person")
                assert await accessibility_problems(page) == []
                await send(page, "Good morning.", graph=ASSISTANT)
                await expect(page.get_by_text("Good morning, Ann.", exact=True)).to_be_visible()
                await page.reload()
                await expect(page.get_by_text("Good morning, Ann.", exact=True)).to_be_visible()
                await page.get_by_text("Ann", exact=True).first.click()
                await page.get_by_role("button", name="Sign out").click()
                await expect(begin).to_be_visible()
                assert await page.context.cookies() == []

                provider.person["groups"] = ["finance"]
                await begin.click()
                await expect(page.get_by_text("not open to your role")).to_be_visible()
                await page.get_by_role("link", name="Billing").click()
                await expect(page.get_by_role("heading", name="Billing")).to_be_visible()
