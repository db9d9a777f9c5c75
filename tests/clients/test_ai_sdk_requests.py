"""Nothing in the requests of the AI SDK's releases tells them apart, so a client has to name its own.

Once this fails, a dialect can be chosen by what the requests have: see "Versions" in docs/api/ai-sdk.md.
"""

import json

from tests.clients.node import node

RELEASES = ("ai-oldest", "ai-6", "ai")


async def test_the_requests_of_all_releases_are_the_same() -> None:
    printed = json.loads(await node("ai_sdk_requests.mjs", *RELEASES))

    oldest, *others = (printed[release] for release in RELEASES)
    triggers = [json.loads(request["body"])["trigger"] for request in oldest]
    assert triggers == ["submit-message", "submit-message", "regenerate-message"]
    for requests in others:
        assert requests == oldest
