"""Dialogs of the console that the server refuses."""

import pytest
from playwright.async_api import expect

from tests.browser.site import Site
from tests.browser.test_console_page import an_operator, dialog

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_dialog_shows_what_is_wrong_and_stays_open(site: Site) -> None:
    operator, tenant = await an_operator(site), await site.key()
    path = f"/console?view=accounts&account={tenant.account}"
    async with site.visit(operator, path=path, complaints=["409"]) as page:
        await page.get_by_role("button", name="Rename").click()
        await dialog(page).get_by_label("New name").fill(operator.account)
        await dialog(page).get_by_role("button", name="Rename").click()

        await expect(dialog(page).get_by_role("alert")).to_contain_text("name")
        await expect(dialog(page).get_by_label("New name")).to_have_value(operator.account)
        await dialog(page).get_by_role("button", name="Cancel").click()
        await expect(page.get_by_role("heading", name=tenant.account)).to_be_visible()
