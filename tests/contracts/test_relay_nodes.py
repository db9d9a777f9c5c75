"""How the servers of the relay are asked what they are."""

import asyncio

from redis.asyncio import Redis

from app.streams.relay.address import RelayAddress
from app.streams.relay.nodes import Nodes
from tests.patience import PATIENCE_S


async def test_a_question_that_is_given_up_at_any_moment_leaves_no_connection(redis_url: str) -> None:
    nodes = Nodes(RelayAddress.parse(redis_url))
    # Kept: what is lost is closed when it is collected.
    given_up = list[asyncio.Task[bool]]()
    while True:
        asking = asyncio.create_task(nodes.is_cluster())
        for _ in given_up:
            await asyncio.sleep(0)
        if not asking.cancel():
            break
        await asyncio.wait([asking])
        given_up.append(asking)

    assert len(given_up) > 1
    async with Redis.from_url(redis_url) as client, asyncio.timeout(PATIENCE_S):
        while len(await client.client_list()) > 1:
            await asyncio.sleep(0.01)
