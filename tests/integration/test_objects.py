"""Large contents outside the database: where they are, who reads them, when they are deleted, failures."""

import asyncio
import hashlib
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pydantic import SecretStr

from app.auth.records import KeyRecord
from app.conversations.neutral_transcript import assistant_line, user_line
from app.conversations.records import Transcript, TranscriptEntry
from app.conversations.repository import page_of_entries, transcript_bytes
from app.conversations.transcript_store import TranscriptStore
from app.ids import RunId, RunKey
from app.platform.concurrency.offload import Offload
from app.platform.db import Database
from app.platform.metrics.objects import ObjectMetrics
from app.platform.network import DIRECT
from app.platform.objects.repository import take_released
from app.platform.objects.service import INSIDE, Objects
from app.platform.objects.storage import ContentLost, ContentsUnavailable, ObjectsNotUsable, ObjectStorage
from app.platform.setting_groups.database import POOL_SIZE
from app.platform.storage.repository import stored_bytes
from app.requests.run_request import GraphRunRequest
from app.runs.deletion.repository import delete_contents
from app.runs.records import NewRun
from app.runs.repository import finish_run, stored_request
from app.runs.requests.codec import RequestCodec
from app.workspaces.service import Workspaces
from tests.factories import a_final, an_account
from tests.integration.conversations import KEY, a_turn, conversations_over
from tests.integration.object_storage import BUCKET, LoopbackS3
from tests.integration.run_process import insert
from tests.integration.statements import execute, scalar, until
from tests.integration.test_kept_files import SPEC

LARGE = "ä" * 70_000
OTHER = "ö" * 70_000
SECRET = SecretStr("k" * 32)
URL = f"s3://{BUCKET}/some/where"


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.fixture
def objects(database: Database, s3: LoopbackS3) -> Objects:  # noqa: ARG001 - it is in the environment
    return Objects((database, ObjectStorage(URL, SECRET, DIRECT)))


async def drop_unused(database: Database, objects: Objects) -> None:
    """As if all waiting times were over."""
    await objects.delete_unused()
    await execute(database, "UPDATE stored_objects SET check_at = now() WHERE check_at IS NOT NULL")
    while await objects.delete_unused():
        pass


def lines(text: str) -> list[TranscriptEntry]:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text}}
    return [
        TranscriptEntry(user_line([{"type": "text", "text": "Look"}, image, image]), "r1"),
        TranscriptEntry(assistant_line([{"type": "text", "text": text}]), "r1"),
    ]


def files_below(directory: Path) -> list[bytes]:
    return [path.read_bytes() for path in directory.rglob("*") if path.is_file()]


def transcript_of(key: KeyRecord, session: str = "s1") -> Transcript:
    return Transcript(str(key.account_id), session)


def a_request(*texts: str) -> GraphRunRequest:
    messages = [{"role": "user", "content": [{"type": "text", "text": text} for text in texts]}]
    return GraphRunRequest.model_validate({"graphId": "a:b", "messages": messages})


async def a_stored_request(
    database: Database, objects: Objects, key: KeyRecord, request: GraphRunRequest
) -> RunKey:
    run, codec = RunKey(key.account_id, RunId("r1")), RequestCodec(Offload(), objects)
    stored = await codec.encode(key.account_id, request)
    new = NewRun(run, key.id, "a:b", "m", stored.text, "Hi", b"", None, key.id, objects=stored.objects)
    async with database.transaction() as tx:
        await codec.hold(tx, key.account_id, stored.objects)
        await insert(tx, new)
    return run


@pytest.mark.parametrize(("url", "key"), [(URL, None), (URL, SECRET), ("file:///{}", SECRET)])
async def test_a_transcript_comes_back_with_what_is_outside_the_database(
    database: Database, s3: LoopbackS3, tmp_path: Path, url: str, key: SecretStr | None
) -> None:
    account = await an_account(database)
    storage = ObjectStorage(url.replace("/{}", str(tmp_path / "new" / "place")), key, DIRECT)
    store = TranscriptStore(database, Objects((database, storage)))
    await store.add(transcript_of(account), lines(LARGE))

    read = await store.entries(transcript_of(account))
    contents = list(s3.contents().values()) or files_below(tmp_path)

    assert [entry.line["message"] for entry in read] == [entry.line["message"] for entry in lines(LARGE)]
    # Once for an account, and the answer stays where it can be searched.
    assert len(contents) == 1
    assert (contents[0] == LARGE.encode()) == (key is None)
    size = "SELECT octet_length(entry::text) FROM session_entries WHERE objects IS {} NULL"
    assert await scalar(database, size.format("NOT")) < 1000
    assert await scalar(database, size.format("")) > 140_000


async def test_a_request_comes_back_and_a_string_like_a_mark_is_itself(
    database: Database, s3: LoopbackS3, objects: Objects
) -> None:
    one, other = await an_account(database), await an_account(database, "umbrella")
    await a_stored_request(database, objects, other, a_request(OTHER))
    mark = f"object:{sha256_of(OTHER)}"
    run = await a_stored_request(database, objects, one, a_request(mark, LARGE))
    async with database.read() as reader:
        stored = await stored_request(reader, run)

    assert stored is not None
    assert LARGE not in stored.text
    codec = RequestCodec(Offload(), objects)
    read = await codec.decode(await codec.read(stored))
    assert read == a_request(mark, LARGE)
    assert len({path.split("/")[2] for path in s3.contents()}) == 2
    assert not [path for path in s3.contents() if sha256_of(LARGE) in path]


async def test_what_is_outside_counts_where_a_conversation_is_read_into_memory(
    database: Database, s3: LoopbackS3, objects: Objects
) -> None:
    key, store = await an_account(database), TranscriptStore(database, objects)
    transcript, line = transcript_of(key), len(LARGE.encode())
    await store.add(transcript, lines(LARGE)[:1])
    await store.add(transcript, lines(OTHER)[:1])
    async with database.snapshot() as reader:
        size = await transcript_bytes(reader, transcript)
        page = await page_of_entries(reader, transcript, after=0, limit=10, max_bytes=line)

    assert 2 * line < size < 2 * line + 2000
    assert (len(page), len(s3.contents())) == (1, 2)


async def test_files_are_outside_from_upload_to_download(
    database: Database, s3: LoopbackS3, objects: Objects, tmp_path: Path
) -> None:
    key, workspaces = await an_account(database), Workspaces(database, [], objects)
    runs = [RunKey(key.account_id, RunId(run_id)) for run_id in ("r1", "r2")]
    uploads = {"large": LARGE.encode(), "small": b"small", "empty": b""}
    await a_turn(database, key, "r1")
    await workspaces.write_uploads(key.account_id, uploads)
    async with database.transaction() as tx:
        await workspaces.reserve(tx, runs[0], SPEC, uploads)
    workspace = await workspaces.open(runs[0], SPEC, in_conversation=True)
    (tmp_path / "1").mkdir()
    workspace.populate(tmp_path / "1")
    begun = {path.name: path.read_bytes() for path in (tmp_path / "1").iterdir()}
    (tmp_path / "1" / "made").write_text(OTHER)
    await workspaces.store_outputs(runs[0], 0, workspace=workspace)
    await a_turn(database, key, "r2")
    async with database.transaction() as tx:
        await workspaces.reserve(tx, runs[1], SPEC, {})
    again = await workspaces.open(runs[1], SPEC, in_conversation=True)
    (tmp_path / "2").mkdir()
    again.populate(tmp_path / "2")

    assert begun == uploads
    assert (tmp_path / "2" / "made").read_text() == OTHER
    assert await workspaces.read(runs[0], "large") == LARGE.encode()
    assert await workspaces.read(runs[0], "empty") == b""
    archive = b"".join([piece async for piece in workspaces.archive(runs[0], "tar")])
    assert LARGE.encode() in archive
    assert OTHER.encode() in archive
    assert await scalar(database, "SELECT sum(octet_length(content)) FROM file_contents") == 5
    assert s3.requests.count("PUT") == 2


async def test_what_nothing_refers_to_is_deleted_and_all_else_is_kept(
    database: Database, s3: LoopbackS3, objects: Objects
) -> None:
    key, store = await an_account(database), TranscriptStore(database, objects)
    await store.add(transcript_of(key), lines(LARGE))
    await store.add(transcript_of(key, "fork"), lines(LARGE))
    run = await a_stored_request(database, objects, key, a_request(OTHER))
    never = {sha256_of("never"): b"n" * 100}
    await objects.write(key.account_id, never)
    async with database.write() as tx:
        counted = await stored_bytes(tx, key.account_id)

    await drop_unused(database, objects)
    after_commits = len(s3.contents())
    await execute(database, "DELETE FROM session_entries WHERE session_id = 's1'")
    await drop_unused(database, objects)
    with_the_fork = len(s3.contents())
    await execute(database, "DELETE FROM session_entries WHERE session_id = 'fork'")
    async with database.transaction() as tx:
        await finish_run(tx, run, attempt=0, final=a_final(run.run_id), report=None, events=[])
        await delete_contents(tx, [run])
    await drop_unused(database, objects)

    assert (after_commits, with_the_fork, len(s3.contents())) == (2, 2, 0)
    assert await scalar(database, "SELECT count(*) FROM stored_objects") == 0
    async with database.write() as tx:
        left = await stored_bytes(tx, key.account_id)
    assert counted - left > len(LARGE.encode()) + len(OTHER.encode()) + 100


async def test_a_file_that_is_replaced_and_one_that_expires_let_go_of_their_contents(
    database: Database, s3: LoopbackS3, objects: Objects, tmp_path: Path
) -> None:
    key, workspaces = await an_account(database), Workspaces(database, [], objects)
    run = RunKey(key.account_id, RunId("r1"))
    await a_turn(database, key, "r1")
    await workspaces.write_uploads(key.account_id, {"a": LARGE.encode()})
    async with database.transaction() as tx:
        await workspaces.reserve(tx, run, SPEC, {"a": LARGE.encode()})
    await drop_unused(database, objects)
    workspace = await workspaces.open(run, SPEC, in_conversation=True)
    workspace.populate(tmp_path)
    (tmp_path / "a").write_text(OTHER)
    await workspaces.store_outputs(run, 0, workspace=workspace)
    await drop_unused(database, objects)
    replaced = len(s3.contents())
    await execute(database, "UPDATE workspaces SET expires_at = now()")
    await workspaces.delete_expired_files()
    await drop_unused(database, objects)

    assert (replaced, len(s3.contents())) == (1, 0)


async def test_what_is_not_referred_to_in_time_is_refused_and_written_again(
    database: Database, s3: LoopbackS3, objects: Objects
) -> None:
    """As if this process had been stopped between writing and the commit."""
    key, contents = await an_account(database), {sha256_of(LARGE): LARGE.encode()}
    await objects.write(key.account_id, contents)
    await drop_unused(database, objects)
    with pytest.raises(ContentsUnavailable):
        async with database.transaction() as tx:
            await objects.hold(tx, key.account_id, contents)
    await objects.write(key.account_id, contents)
    await execute(database, "UPDATE stored_objects SET check_at = now()")
    async with database.transaction() as tx:
        await objects.hold(tx, key.account_id, contents)
        # It is not deleted while what refers to it is about to be committed.
        looked_at = await objects.delete_unused()

    assert (looked_at, len(s3.contents())) == (0, 1)


async def test_what_was_let_go_of_is_taken_in_parts(database: Database) -> None:
    key = await an_account(database)
    released = f"INSERT INTO released_objects (account_id, sha256) SELECT '{key.account_id}', n"
    await execute(database, f"{released} FROM generate_series(1, 5) AS n")
    async with database.write() as tx:
        await take_released(tx, most=3)

    assert await scalar(database, "SELECT count(*) FROM released_objects") == 2


async def test_what_is_used_is_written_again_only_where_it_was_lost(
    database: Database, s3: LoopbackS3, objects: Objects
) -> None:
    key, contents = await an_account(database), {sha256_of(LARGE): LARGE.encode()}
    await TranscriptStore(database, objects).add(transcript_of(key), lines(LARGE))
    s3.faults.append("forbidden")
    await objects.write(key.account_id, contents)
    await objects.write(key.account_id, contents)
    before = s3.requests.count("PUT")
    s3.lose()
    await objects.write(key.account_id, contents)

    assert await objects.read(key.account_id, contents) == contents
    assert (before, s3.requests.count("PUT")) == (1, 2)


@pytest.mark.parametrize("faults", [["unavailable"], ["cut"], ["damaged"], ["missing", "missing"]])
@pytest.mark.parametrize("secret", [None, SECRET])
async def test_a_read_that_fails_once_is_repeated(
    database: Database, s3: LoopbackS3, secret: SecretStr | None, faults: list[Any]
) -> None:
    key, contents = await an_account(database), {sha256_of(LARGE): LARGE.encode()}
    objects = Objects((database, ObjectStorage(URL, secret, DIRECT)))
    await objects.write(key.account_id, contents)
    s3.faults.extend(faults)

    assert await objects.read(key.account_id, contents) == contents
    assert s3.requests.count("GET") > len(faults)


async def test_what_cannot_be_read_or_written_is_said_so_without_words_of_the_storage(
    database: Database, s3: LoopbackS3
) -> None:
    key, contents = await an_account(database), {sha256_of(LARGE): LARGE.encode()}
    registry = CollectorRegistry()
    metrics = ObjectMetrics(registry)
    objects = Objects((database, ObjectStorage(URL, SECRET, DIRECT, metrics)))
    s3.faults.append("forbidden")
    with pytest.raises(ContentsUnavailable) as not_written:
        await objects.write(key.account_id, contents)
    await objects.write(key.account_id, contents)
    with pytest.raises(ContentsUnavailable):
        await INSIDE.read(key.account_id, contents)
    other_key = Objects((database, ObjectStorage(URL, SecretStr("o" * 32), DIRECT, metrics)))
    with pytest.raises(ContentLost):
        await other_key.read(key.account_id, contents)

    assert "forbidden" not in not_written.value.detail.lower()
    counted = {
        (sample.name, *sample.labels.values()): sample.value
        for metric in registry.collect()
        for sample in metric.samples
    }
    assert counted["runtally_object_failures_total", "unavailable"] == 1
    assert counted["runtally_object_failures_total", "lost"] == 1
    assert counted["runtally_object_seconds_count", "put"] == 1
    assert counted["runtally_object_bytes_total", "put"] > len(LARGE.encode())


async def test_nothing_is_stored_whose_contents_cannot_be_written(
    database: Database, s3: LoopbackS3, objects: Objects
) -> None:
    key = await an_account(database)
    s3.faults.append("forbidden")

    with pytest.raises(ContentsUnavailable):
        await TranscriptStore(database, objects).add(transcript_of(key), lines(LARGE))

    assert await scalar(database, "SELECT count(*) FROM session_entries") == 0
    await drop_unused(database, objects)
    assert await scalar(database, "SELECT count(*) FROM stored_objects") == 0


async def test_no_reader_keeps_a_connection_to_the_database_while_the_storage_is_slow(
    database: Database, s3: LoopbackS3, objects: Objects
) -> None:
    key = await an_account(database)
    conversation = await a_turn(database, key, "r1")
    await TranscriptStore(database, objects).add(conversation.transcript, lines(LARGE))
    service, before = conversations_over(database, objects=objects), s3.requests.count("GET")
    s3.flows.clear()
    reads = [
        asyncio.create_task(service.get_page(key.account_id, KEY, limit=10)) for _ in range(2 * POOL_SIZE)
    ]

    async def all_wait() -> bool:
        return s3.requests.count("GET") - before >= POOL_SIZE

    await until(all_wait)
    counted = await scalar(database, "SELECT count(*) FROM session_entries")
    s3.flows.set()
    pages = await asyncio.gather(*reads)

    assert counted == 2
    assert {page.entries[0].message.attachments[0].size for page in pages} == {len(LARGE) // 4 * 3}


def test_a_directory_is_made_for_the_server_alone_and_where_none_can_be_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ObjectStorage(f"file://{tmp_path}/made", None, DIRECT)

    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o700
    with pytest.raises(ObjectsNotUsable, match="RUNTALLY_OBJECTS"):
        ObjectStorage(f"file://{tmp_path}/file/below", None, DIRECT)
