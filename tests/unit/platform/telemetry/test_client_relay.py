"""What a receiver may do to exports of clients' own agents: it never delays the clients."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from app.platform.background import forever
from app.platform.telemetry.clients.relay import MAX_ACCOUNT_BYTES, PAUSE_S, ClientRelay, Sent
from tests.virtual_time import in_virtual_time

MANY = b"x" * (MAX_ACCOUNT_BYTES // 4)


@dataclass
class Receiver:
    """Answers when it is let go; keeps what it gets, and when."""

    answers: list[Sent | Exception]
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    got: list[tuple[float, bytes]] = field(default_factory=list)

    async def __call__(self, body: bytes) -> Sent:
        self.got.append((asyncio.get_running_loop().time(), body))
        await self.let_go.wait()
        answer = self.answers.pop(0) if self.answers else "forwarded"
        if isinstance(answer, Exception):
            raise answer
        return answer


def read(body: bytes, _media_type: str, _attributes: Mapping[str, str]) -> bytes:
    return body


@asynccontextmanager
async def relaying(receiver: Receiver) -> AsyncIterator[ClientRelay]:
    relay = ClientRelay(read, receiver)
    working = asyncio.create_task(forever(relay.send, 0, name="relay"))
    try:
        yield relay
    finally:
        working.cancel()
        await asyncio.wait({working})


async def take(relay: ClientRelay, body: bytes, account: str = "acme") -> None:
    await relay.accept(body, "", {}, account=account)
    await asyncio.sleep(0.001)


@in_virtual_time
async def test_what_arrives_meanwhile_is_sent_together_and_each_account_apart() -> None:
    receiver = Receiver([])
    async with relaying(receiver) as relay:
        await take(relay, b"a")
        await take(relay, b"b")
        await take(relay, b"c")
        await take(relay, b"d", "other")
        receiver.let_go.set()
        await asyncio.sleep(1)
        await take(relay, b"e")

    assert [body for _, body in receiver.got] == [b"a", b"d", b"bc", b"e"]
    assert relay.results == {"forwarded": 5}


@in_virtual_time
async def test_a_receiver_that_is_away_gets_what_arrives_in_a_pause() -> None:
    receiver = Receiver(["unreachable", "refused"])
    receiver.let_go.set()
    async with relaying(receiver) as relay:
        await take(relay, b"a")
        await take(relay, b"b")
        await asyncio.sleep(PAUSE_S)
        await take(relay, b"c")

    (first, _), (second, _), (third, _) = receiver.got
    assert [body for _, body in receiver.got] == [b"a", b"b", b"c"]
    assert second - first >= PAUSE_S > third - second
    assert relay.results == {"unreachable": 1, "refused": 1, "forwarded": 1}


@in_virtual_time
async def test_what_has_failed_in_any_way_is_not_sent_again() -> None:
    receiver = Receiver([ValueError("no header")])
    receiver.let_go.set()
    async with relaying(receiver) as relay:
        await take(relay, b"a")
        await take(relay, b"b", "other")
        await asyncio.sleep(PAUSE_S)

    assert [body for _, body in receiver.got] == [b"a", b"b"]
    assert relay.results == {"unreachable": 1, "forwarded": 1}


@in_virtual_time
async def test_what_waits_is_bounded_and_no_account_takes_it_all() -> None:
    receiver = Receiver([])
    async with relaying(receiver) as relay:
        for _ in range(6):
            await take(relay, MANY)
        dropped = relay.results["dropped"]
        await take(relay, MANY, "other")
        beside = relay.results["dropped"]
        for account in "abcdefgh":
            await take(relay, MANY, account)
        after = relay.results["dropped"]
        receiver.let_go.set()
        await asyncio.sleep(1)

    assert (dropped, beside, after) == (2, 2, 7)
    assert relay.results["forwarded"] == 8


@in_virtual_time
async def test_exports_without_contents_take_no_memory_while_they_wait() -> None:
    receiver = Receiver([])
    async with relaying(receiver) as relay:
        await take(relay, b"a")
        tracemalloc.start()
        for _ in range(10_000):
            await relay.accept(b"", "", {}, account="acme")
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        receiver.let_go.set()
        await asyncio.sleep(1)

    assert relay.results == {"forwarded": 10_001}
    assert held < 100_000
