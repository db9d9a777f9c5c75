"""Who is refused hears why, also while still sending."""

import asyncio
import re

from tests.patience import PATIENCE_S
from tests.security.server import Target

HEAD = b"POST /v1/runs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"


async def test_a_refusal_reaches_a_client_that_sends_its_short_body_late(target: Target) -> None:
    reader, writer = await target.connect()
    for _ in range(2):
        writer.write(HEAD % 60_000)
        status = await reader.readline()
        answer = await reader.readuntil(b"}")
        writer.write(b"x" * 60_000)
        await writer.drain()

        assert b" 401 " in status
        assert b"unauthenticated" in answer
    writer.close()


async def test_what_follows_a_skipped_body_is_a_request_of_its_own(target: Target) -> None:
    reader, writer = await target.connect()
    hidden = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    writer.write(
        HEAD % len(hidden) + hidden + b"GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    )

    async with asyncio.timeout(PATIENCE_S):
        answered = await reader.read()

    writer.close()
    assert re.findall(rb"HTTP/1.1 (\d+)", answered) == [b"401", b"404"]
