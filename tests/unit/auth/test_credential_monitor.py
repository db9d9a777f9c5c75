"""What is open ends with its credential; the database is queried no more than that takes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from app.auth.credential_monitor import CredentialMonitor, CredentialRevoked
from app.auth.records import Credential
from app.errors import Unavailable
from app.ids import AccountId, ApiKeyId, new_uuid
from app.platform.clock.clock import host_time
from app.requests.principal import KeyTerms, Principal
from tests.patience import PATIENCE_S
from tests.unit.waiting import turns, until
from tests.virtual_time import in_virtual_time


class Books:
    """What the database knows of credentials, and how often it was queried."""

    def __init__(self) -> None:
        self.valid: set[Credential] = set()
        self.queried: list[set[Credential]] = []
        self.away = False

    async def look_up(self, queried: set[Credential]) -> set[Credential]:
        self.queried.append(queried)
        if self.away:
            raise Unavailable
        return queried & self.valid

    def a_caller(self, session: bytes | None = None) -> Principal:
        caller = Principal(AccountId(new_uuid()), ApiKeyId(new_uuid()), frozenset(), session)
        self.valid.add(credential_of(caller))
        return caller


def credential_of(caller: Principal) -> Credential:
    return Credential(caller.api_key_id, caller.session_hash)


@asynccontextmanager
async def watching(books: Books) -> AsyncIterator[CredentialMonitor]:
    monitor = CredentialMonitor(books.look_up, interval_s=0.001)
    task = asyncio.create_task(monitor.watch())
    yield monitor
    task.cancel()
    await asyncio.wait({task})


async def open_for_ever(monitor: CredentialMonitor, caller: Principal) -> Any:
    with monitor.while_valid(caller):
        await asyncio.Event().wait()


async def test_streams_of_revoked_credentials_end_and_others_stay_open() -> None:
    books = Books()
    doomed, spared = books.a_caller(), books.a_caller()
    async with watching(books) as monitor:
        ends = [asyncio.create_task(open_for_ever(monitor, doomed)) for _ in range(3)]
        other = asyncio.create_task(open_for_ever(monitor, spared))
        await until(lambda: len(books.queried) >= 1)
        books.valid.discard(credential_of(doomed))

        async with asyncio.timeout(PATIENCE_S):
            answers = await asyncio.gather(*ends, return_exceptions=True)

        assert [type(answer) for answer in answers] == [CredentialRevoked] * 3
        assert not other.done()
        other.cancel()


async def test_one_query_checks_all_open_streams_and_none_is_sent_without_any() -> None:
    books = Books()
    callers = [books.a_caller(), books.a_caller(), books.a_caller(session=b"x")]
    async with watching(books) as monitor:
        streams = [
            asyncio.create_task(open_for_ever(monitor, caller)) for caller in callers for _ in range(100)
        ]
        await until(lambda: len(books.queried) >= 2)
        assert books.queried[0] == {credential_of(caller) for caller in callers}

        for stream in streams:
            stream.cancel()
        await asyncio.wait(streams)
        # More turns than a lookup would take.
        await turns(2_000)
        before = len(books.queried)
        await turns(2_000)

    assert len(books.queried) == before


async def test_streams_stay_open_while_the_database_is_unavailable() -> None:
    books = Books()
    caller = books.a_caller()
    async with watching(books) as monitor:
        stream = asyncio.create_task(open_for_ever(monitor, caller))
        await until(lambda: len(books.queried) >= 1)
        books.away = True
        books.valid.clear()
        more = len(books.queried) + 3
        await until(lambda: len(books.queried) >= more)
        assert not stream.done()

        books.away = False
        with pytest.raises(CredentialRevoked):
            async with asyncio.timeout(PATIENCE_S):
                await stream


@in_virtual_time
async def test_a_stream_ends_when_its_token_expires() -> None:
    books = Books()

    def now() -> datetime:
        """The host's clock is a day behind."""
        return host_time() + timedelta(days=1)

    expires_at = now() + timedelta(hours=1)
    token = replace(books.a_caller(), end_user="ann", terms=KeyTerms(expires_at=expires_at))
    started = asyncio.get_running_loop().time()

    with pytest.raises(CredentialRevoked):
        await open_for_ever(CredentialMonitor(books.look_up, now=now), token)

    assert asyncio.get_running_loop().time() - started == pytest.approx(3600, abs=60)
