"""Streams end in order when the server stops."""

import asyncio
import re
from collections.abc import Iterable
from itertools import repeat

import pytest

from app.http.streaming.closing import OpenStreams
from app.http.streaming.stopping import ServerStopping, retry_line
from tests.patience import PATIENCE_S
from tests.virtual_time import in_virtual_time


async def _send(streams: OpenStreams, pauses_s: Iterable[float]) -> None:
    with streams.opened() as stream:
        for pause_s in pauses_s:
            await asyncio.sleep(pause_s)
            stream.sent()
        await asyncio.Event().wait()


@in_virtual_time
async def test_a_stream_ends_once_it_has_sent_what_there_is() -> None:
    streams, began = OpenStreams(), asyncio.get_running_loop().time()
    sending = asyncio.create_task(_send(streams, [0.03] * 10))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await streams.close()
    with pytest.raises(ServerStopping) as caught:
        await sending

    assert caught.value.retry_after_s == 1
    # A tenth of a second after the last of the ten.
    assert asyncio.get_running_loop().time() - began == pytest.approx(0.4, abs=0.05)


async def test_a_stream_that_never_pauses_ends_as_well() -> None:
    streams = OpenStreams()
    sending = asyncio.create_task(_send(streams, repeat(0)))
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await streams.close()

    with pytest.raises(ServerStopping):
        await sending


async def test_a_stream_that_has_ended_is_not_waited_for() -> None:
    streams = OpenStreams()
    with streams.opened():
        pass
    async with asyncio.timeout(PATIENCE_S):
        await streams.close()
    with pytest.raises(ServerStopping), streams.opened():
        pytest.fail("a stream was opened")


def test_clients_reconnect_one_after_the_other() -> None:
    pauses = {int(re.fullmatch(rb"retry: (\d+)\n", retry_line())[1]) for _ in range(20)}  # type: ignore[index]

    assert len(pauses) > 1
    assert all(500 <= pause <= 3000 for pause in pauses)
