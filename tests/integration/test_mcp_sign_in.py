"""Where MCP clients learn who makes tokens, and what they get with one."""

import json

from app.simulator.script import Reply, Text
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import WorldOf, a_client
from tests.integration.mcp_messages import a_call, messages_in, modern
from tests.token_issuers import an_issuer

METADATA = "/.well-known/oauth-protected-resource/mcp"
TOOL = f"{MESSAGES}__assistant"


async def test_a_client_without_a_token_is_told_where_to_get_one(world_of: WorldOf) -> None:
    async with an_issuer() as issuer:
        setting = json.dumps([issuer.setting(account="default")])
        world = await world_of(lambda _: Reply([Text("hi")]), agent=MESSAGES, RUNTALLY_JWT_ISSUERS=setting)
        refused = await world.http.post("/mcp", json={}, headers={"Authorization": "Bearer rt_none"})
        async with a_client(world.url, issuer.token("ann"), agent=MESSAGES) as ann:
            calls = [
                messages_in((await ann.post("/mcp", **modern(a_call(TOOL, "hi", _meta=meta)))).text)[-1][1]
                for meta in ({}, {"runtally/endUser": "ann"})
            ]
            other = await ann.post("/mcp", **modern(a_call(TOOL, "hi", _meta={"runtally/endUser": "bob"})))
        runs = (await world.http.get("/v1/runs")).json()["items"]
        metadata = await world.http.get(METADATA)

    assert (refused.status_code, refused.json()["error"]["data"]["code"]) == (401, "unauthenticated")
    assert refused.headers["www-authenticate"] == f'Bearer resource_metadata="{world.url}{METADATA}"'
    assert metadata.json() == {
        "resource": f"{world.url}/mcp",
        "authorization_servers": [issuer.url],
        "bearer_methods_supported": ["header"],
        "resource_name": "Runtally",
    }
    assert [each["result"]["isError"] for each in calls] == [False, False]
    assert other.json()["error"]["data"]["errors"][0]["field"] == "params._meta.runtally/endUser"
    assert [run["endUser"] for run in runs] == ["ann", "ann"]


async def test_without_issuers_there_are_keys_only(world_of: WorldOf) -> None:
    world = await world_of(lambda _: Reply([Text("hi")]), agent=MESSAGES)

    refused = await world.http.post("/mcp", json={}, headers={"Authorization": "Bearer rt_none"})
    metadata = await world.http.get(METADATA)

    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert metadata.status_code == 404
