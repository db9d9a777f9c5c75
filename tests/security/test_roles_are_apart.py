"""Operations of each kind, called by persons of every role: open is what their scopes say."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx

from app.auth.roles import OWN_ONLY, ROLES
from app.platform.issuers.persons import Role
from app.requests.principal import Scope
from tests.e2e.stories import a_request
from tests.oidc_provider import ROLES as GROUPS
from tests.oidc_provider import OidcProvider, a_provider, sign_in
from tests.patience import PATIENCE_S
from tests.security.conftest import OpenTarget
from tests.security.server import ASSISTANT, Target
from tests.security.test_end_users_are_apart import OPEN
from tests.security.test_revoked_credentials import OURS
from tests.security.victims import MATRIX, SECRET, a_victim, send

CONSENTS = {"/v1/ag-ui/{graphId}", "/v1/ai-sdk/{graphId}/chat"}
"""Their bodies answer requests for consent, which needs more."""
BY_ORG = {"ACCOUNT": None, "ACCOUNT_CLAIM": "org", "ACCOUNTS": "*"}


@asynccontextmanager
async def a_house(open_target: OpenTarget, model_url: str) -> AsyncIterator[tuple[Target, OidcProvider]]:
    """A server whose provider names the account."""
    async with a_provider() as provider, open_target(model_url, **provider.settings(**BY_ORG)) as target:
        yield target, provider


@asynccontextmanager
async def a_person(
    target: Target, provider: OidcProvider, role: Role, account: str, name: str
) -> AsyncIterator[httpx.AsyncClient]:
    """The browser of a person who is signed in."""
    groups = [group for group, given in GROUPS.items() if given == role]
    provider.person = {"sub": name, "groups": groups, "org": account}
    options: dict[str, Any] = {"headers": OURS, "timeout": PATIENCE_S, "trust_env": False}
    async with httpx.AsyncClient(base_url=target.url, **options) as browser:
        assert "problem" not in (await sign_in(browser)).headers["location"]
        yield browser


def may(role: Role, operation: tuple[str, str], needed: tuple[Scope, ...]) -> bool:
    """What the table of roles says."""
    return set(needed) <= set(ROLES[role]) and (role not in OWN_ONLY or operation in OPEN)


def of_each_kind() -> list[tuple[str, str]]:
    """One operation for each set of scopes, open to end users or not.

    For every operation test_accounts_are_apart proves that it needs its scopes and stays in its account.
    """
    kinds = {(needed, operation in OPEN): operation for operation, needed in MATRIX.items()}
    return [operation for operation in kinds.values() if operation[1] not in CONSENTS]


async def test_a_role_opens_its_scopes_and_only_in_its_account(
    open_target_here: OpenTarget, model_url: str
) -> None:
    anomalies: list[Any] = []
    async with a_house(open_target_here, model_url) as (target, provider), a_victim(target) as victim:
        await target.new_key("other")
        before = await victim.state()
        for role in ROLES:
            async with a_person(target, provider, role, "other", f"mallory-{role}") as person:
                for operation in of_each_kind():
                    answer = await send(person, operation, victim)
                    if (answer.status_code in {401, 403}) == may(role, operation, MATRIX[operation]):
                        anomalies.append((role, operation, answer.status_code, answer.text))
                    if SECRET in answer.text or victim.webhook_id in answer.text:
                        anomalies.append((role, operation, "shows", answer.text))
        after = await victim.state()

    assert anomalies == []
    assert after == before


async def test_who_sees_what_a_person_has_said(open_target_here: OpenTarget, model_url: str) -> None:
    seen: dict[str, Any] = {}
    async with AsyncExitStack() as stack:
        target, provider = await stack.enter_async_context(a_house(open_target_here, model_url))
        await target.new_key("house")

        async def enter(role: Role, name: str) -> httpx.AsyncClient:
            return await stack.enter_async_context(a_person(target, provider, role, "house", name))

        ann = await enter("user", "ann")
        said = a_request(SECRET, graphId=ASSISTANT, runId="anns-run", stateKey="anns-chat")
        assert (await ann.post("/v1/runs/wait", json=said)).json()["ok"]
        boss = await enter("admin", "boss")
        bob, eve = await enter("user", "bob"), await enter("viewer", "eve")
        for name, browser in {"ann": ann, "boss": boss, "bob": bob, "eve": eve}.items():
            paths = ("/v1/sessions/anns-chat", "/v1/runs/anns-run", "/v1/runs/anns-run/receipts")
            seen[name] = [(await browser.get(path)).status_code for path in paths]
        made = await boss.post("/v1/accounts/house/keys", json={"scopes": ["runs:read"]})
        above = await boss.post("/v1/accounts/house/keys", json={"scopes": ["admin"]})

    assert seen == {"ann": [200, 200, 403], "boss": [200] * 3, "bob": [404, 404, 403], "eve": [200] * 3}
    assert (made.status_code, above.status_code) == (201, 403)
    # The key is for whatever it is made for, not for who has made it.
    assert made.json()["labels"] is None
