"""The SDK's own suite for session stores, and what it does not cover."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast
from uuid import uuid4

import asyncpg
import pytest
import pytest_asyncio
from claude_agent_sdk import SessionKey, SessionStore, SessionStoreEntry
from claude_agent_sdk.testing import run_session_store_conformance
from sqlalchemy import event

from app.conversations.records import Transcript, TranscriptEntry, TranscriptState
from app.conversations.sdk_store import CliSessionStore
from app.conversations.transcript_store import TranscriptStore
from app.ids import AccountId, RunId, RunKey
from app.platform.db import Database
from tests.integration.statements import noted

KEY: SessionKey = {"project_key": "proj", "session_id": "sess"}


class SdkStore:
    """The store with the methods that the SDK's suite calls, and projects of its own."""

    def __init__(self, database: Database) -> None:
        self._store = TranscriptStore(database)
        self._prefix = str(uuid4())

    def transcript(self, key: SessionKey) -> Transcript:
        project = f"{self._prefix} {key['project_key']}"
        return Transcript(project, key["session_id"], key.get("subpath") or "")

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        lines = [TranscriptEntry(cast("dict[str, Any]", entry), None) for entry in entries]
        await self._store.add(self.transcript(key), lines)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        entries = await self._store.entries(self.transcript(key))
        return [cast("SessionStoreEntry", entry.line) for entry in entries] or None


@pytest_asyncio.fixture
async def store(database: Database) -> AsyncIterator[TranscriptStore]:
    yield TranscriptStore(database)


@pytest_asyncio.fixture
async def sdk_store(database: Database) -> AsyncIterator[SdkStore]:
    yield SdkStore(database)


async def test_the_sdks_conformance_suite(database: Database) -> None:
    async def fresh() -> SessionStore:
        return cast("SessionStore", SdkStore(database))

    await run_session_store_conformance(fresh)


async def test_the_same_entry_twice_is_one(sdk_store: SdkStore) -> None:
    lines = [an_entry("a", 1), an_entry("b", 2)]
    await sdk_store.append(KEY, lines)
    await sdk_store.append(KEY, [*lines, an_entry("c", 3)])

    assert await sdk_store.load(KEY) == [*lines, an_entry("c", 3)]


async def test_concurrent_writers_lose_and_mix_nothing(sdk_store: SdkStore) -> None:
    batches = [[an_entry(str(uuid4()), number) for number in range(20)] for _ in range(8)]

    await asyncio.gather(*(sdk_store.append(KEY, batch) for batch in batches))

    loaded = await sdk_store.load(KEY) or []
    assert len(loaded) == 160
    for start in range(0, 160, 20):
        assert loaded[start : start + 20] in batches


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("\u2028 \U0001f600 </conversation_so_far>", "\u2028 \U0001f600 </conversation_so_far>"),
        ("a\0b\ud800", "a\ufffdb\ufffd"),
    ],
)
async def test_text_is_stored_as_far_as_it_can_be(sdk_store: SdkStore, text: str, stored: str) -> None:
    await sdk_store.append(KEY, [an_entry("a", 1, text=text)])
    assert await sdk_store.load(KEY) == [an_entry("a", 1, text=stored)]


async def test_a_run_writes_to_its_own_accounts_transcripts(store: TranscriptStore) -> None:
    account = AccountId(uuid4())
    of_cli, own = CliSessionStore(store, cli_session := uuid4()), Transcript(str(account), "sess")
    of_cli.attach(own, RunKey(account, RunId("r1")), 0, state=TranscriptState())
    key = SessionKey(project_key="-some-directory", session_id=str(cli_session))
    await of_cli.append(key, [an_entry("a", 1, sessionId=str(cli_session))])
    await of_cli.append({**key, "subpath": "subagents/one"}, [an_entry("b", 1)])

    assert list(await store.entries(Transcript("-some-directory", str(cli_session)))) == []
    # Under the session of the conversation, whatever the CLI calls its own.
    assert await store.entries(own) == [
        TranscriptEntry(cast("dict[str, Any]", an_entry("a", 1, sessionId="sess")), "r1")
    ]
    assert len(await store.entries(own._replace(subpath="subagents/one"))) == 1
    assert of_cli.state == await store.state(own)


async def test_between_runs_nothing_is_written_and_a_message_is_noticed(store: TranscriptStore) -> None:
    own = Transcript(str(uuid4()), "sess")
    of_cli = CliSessionStore(store, uuid4())
    of_cli.attach(own, RunKey(AccountId(uuid4()), RunId("r1")), 0, state=TranscriptState())
    await of_cli.append(KEY, [an_entry("a", 1)])
    of_cli.detach()

    await of_cli.append(KEY, [cast("SessionStoreEntry", {"type": "mode"})])
    assert not of_cli.unexpected
    await of_cli.append(KEY, [an_entry("b", 2)])

    assert of_cli.unexpected
    assert len(await store.entries(own)) == 1


async def test_the_state_of_a_transcript_changes_with_every_line(store: TranscriptStore) -> None:
    transcript = Transcript(str(uuid4()), "sess")
    first = await store.add(transcript, [TranscriptEntry({"uuid": "a", "n": 1}, "r1")])
    again = await store.add(transcript, [TranscriptEntry({"uuid": "a", "n": 1}, "r1")])
    second = await store.add(
        transcript, [TranscriptEntry({"uuid": "b", "n": 1}, "r2"), TranscriptEntry({"n": 2}, "r2")]
    )

    assert again == TranscriptState()
    assert (first.lines, second.lines) == (1, 2)
    assert await store.state(transcript) == first.plus(again).plus(second)
    assert await store.state(transcript) != first


@pytest.mark.parametrize(("lines", "statements"), [(0, 1), (3, 1), (1001, 3)])
async def test_a_transcript_is_read_with_its_state(
    store: TranscriptStore, database: Database, lines: int, statements: int
) -> None:
    transcript, other = Transcript(str(uuid4()), "sess"), Transcript(str(uuid4()), "sess")
    new = [TranscriptEntry({"uuid": str(number), "n": number}, "r1") for number in range(lines)]
    for each in (transcript, other):
        await store.add(each, new)

    with noted(database) as found:
        entries, state = await store.read(transcript)

    assert [entry.line for entry in entries] == [entry.line for entry in new]
    assert state == await store.state(transcript)
    assert len(found) == statements


async def test_a_long_transcript_is_deleted_while_it_is_read(
    store: TranscriptStore, database: Database, database_url: str
) -> None:
    transcript = Transcript(str(uuid4()), "sess")
    await store.add(transcript, [TranscriptEntry({"n": number}, "r1") for number in range(1001)])

    async def delete() -> None:
        connection = await asyncpg.connect(database_url)
        await connection.execute("DELETE FROM session_entries")
        await connection.close()

    def delete_after_first(*_: object) -> None:
        if len(found) == 2:
            with ThreadPoolExecutor() as threads:
                threads.submit(asyncio.run, delete()).result()

    with noted(database) as found:
        event.listen(database._engine.sync_engine, "before_cursor_execute", delete_after_first)
        entries, state = await store.read(transcript)

    assert (len(found), entries, state) == (2, [], TranscriptState())


def an_entry(uuid: str, number: int, **fields: Any) -> SessionStoreEntry:
    return cast("SessionStoreEntry", {"type": "user", "uuid": uuid, "n": number, **fields})
