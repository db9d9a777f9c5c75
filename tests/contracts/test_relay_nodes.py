"""How the servers of the relay are asked what they are."""

import asyncio
from urllib.parse import urlsplit

import psutil

from app.streams.relay.address import RelayAddress
from app.streams.relay.nodes import Nodes
from tests.patience import PATIENCE_S


def own_connections(url: str) -> set[int]:
    """The ports of those of this process."""
    all_ = psutil.Process().net_connections("tcp")
    port = urlsplit(url).port
    return {each.laddr.port for each in all_ if getattr(each.raddr, "port", None) == port}


async def test_a_question_that_is_given_up_at_any_moment_leaves_no_connection(redis_url: str) -> None:
    before = own_connections(redis_url)
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
    async with asyncio.timeout(PATIENCE_S):
        while own_connections(redis_url) - before:
            await asyncio.sleep(0.01)
