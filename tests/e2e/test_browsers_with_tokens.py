"""The browsers of a house's users have tokens of its backend, and none has an API key."""

import json

from app.simulator.script import Reply, Text
from tests.e2e.agents import without_cli
from tests.e2e.stories import WorldOf, a_client, a_request
from tests.token_issuers import an_issuer


@without_cli
async def test_what_a_browser_starts_is_for_its_user(world_of: WorldOf, agent: str) -> None:
    async with an_issuer() as issuer:
        setting = json.dumps([issuer.setting(account="default")])
        world = await world_of(lambda _: Reply([Text("Hello.")]), RUNTALLY_JWT_ISSUERS=setting)
        limit = {"scope": "endUser", "match": "ann", "window": "total", "tokens": 1, "mode": "hard"}
        answers = {}
        for name in ("ann", "bob"):
            async with a_client(world.url, issuer.token(name), agent=agent) as browser:
                first = await browser.post("/v1/runs/wait", json=a_request(stateKey=name))
                (await world.http.put("/v1/budgets/ann", json=limit)).raise_for_status()
                again = await browser.post("/v1/runs/wait", json=a_request(stateKey=name))
                answers[name] = first.json()["ok"], again.status_code, again.json().get("budget")
        receipts = (await world.http.get("/v1/receipts")).json()["items"]
        keys = (await world.http.get("/v1/accounts/default/keys")).json()["items"]

    assert answers == {"ann": (True, 402, "ann"), "bob": (True, 200, None)}
    assert {(receipt["endUser"], receipt["apiKeyId"]) for receipt in receipts} == {
        (name, keys[0]["id"]) for name in ("ann", "bob")
    }
    assert keys[0]["name"] == issuer.url
