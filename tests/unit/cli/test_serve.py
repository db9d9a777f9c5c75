import asyncio
import socket

from app.cli.serve import listen


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
