import asyncio
import socket

import pytest

from app.cli.addresses import AddressInUse, listen, listen_for_scrapes
from app.platform.settings import Settings


async def test_short_writes_are_sent_at_once() -> None:
    """Otherwise an event would wait for the client's acknowledgement of the one before, 40 ms."""
    delays: asyncio.Queue[int] = asyncio.Queue()

    def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted = writer.get_extra_info("socket")
        delays.put_nowait(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with listen("127.0.0.1", 0) as sock:
        async with await asyncio.start_server(connected, sock=sock):
            _, writer = await asyncio.open_connection(*sock.getsockname()[:2])
            assert await delays.get() != 0
            writer.close()


def test_a_metrics_port_in_use_is_named_by_its_variable_in_one_line() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        settings = Settings.load(_env_file=None, RUNTALLY_METRICS_PORT=port)
        with pytest.raises(AddressInUse) as refused:
            listen_for_scrapes(settings, "127.0.0.1")

    assert refused.value.detail == (
        f"Cannot listen on 127.0.0.1:{port}: Address already in use. Choose another RUNTALLY_METRICS_PORT."
    )


def test_without_the_setting_there_is_no_metrics_port() -> None:
    with listen_for_scrapes(Settings.load(_env_file=None), "127.0.0.1") as sock:
        assert sock is None
