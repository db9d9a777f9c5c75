"""Where large contents are, as an operator has set it: what the doctor says of that."""

import pytest
from pydantic import SecretStr

from app.conversations.transcript_store import TranscriptStore
from app.doctor.objects import check_objects
from app.platform.db import Database
from app.platform.network import DIRECT
from app.platform.objects.service import Objects, are_elsewhere
from app.platform.objects.storage import ObjectStorage
from app.platform.settings import Settings
from tests.factories import an_account
from tests.integration.object_storage import LoopbackS3
from tests.integration.test_objects import LARGE, URL, drop_unused, lines, transcript_of

KEYED = {"RUNTALLY_OBJECTS": URL, "RUNTALLY_OBJECTS_KEY": "x" * 32}


@pytest.mark.parametrize(
    ("chosen", "status", "says"),
    [
        (KEYED, "ok", "encrypted"),
        ({"RUNTALLY_OBJECTS": "s3://no-such-bucket"}, "error", "FileNotFoundError"),
    ],
)
async def test_the_doctor_writes_and_reads_a_content(
    s3: LoopbackS3, monkeypatch: pytest.MonkeyPatch, chosen: dict[str, str], status: str, says: str
) -> None:
    assert await check_objects(a_setting(monkeypatch, {}), None) == []
    (check,) = await check_objects(a_setting(monkeypatch, chosen), None)

    assert (check.status, s3.contents()) == (status, {})
    assert says in check.detail


async def test_another_key_or_place_than_that_of_the_rows_is_noticed(
    database: Database, s3: LoopbackS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = Objects((database, ObjectStorage(URL, SecretStr("k" * 32), DIRECT)))
    key = await an_account(database)
    await TranscriptStore(database, objects).add(transcript_of(key), lines(LARGE))
    # What was just written may not be referred to yet.
    storages = (None, *(ObjectStorage(URL, SecretStr(each * 32), DIRECT) for each in "kx"))
    before = [await are_elsewhere(database, storage) for storage in storages]
    await drop_unused(database, objects)

    found = [await are_elsewhere(database, storage) for storage in storages]
    unset = await check_objects(a_setting(monkeypatch, {}), database)
    other = await check_objects(a_setting(monkeypatch, KEYED), database)

    assert (before, found) == ([False] * 3, [True, False, True])
    assert [check.status for check in (*unset, *other)] == ["error", "error"]
    assert "RUNTALLY_OBJECTS_KEY" in other[0].detail
    assert len(s3.contents()) == 1


def a_setting(monkeypatch: pytest.MonkeyPatch, chosen: dict[str, str]) -> Settings:
    for name, value in chosen.items():
        monkeypatch.setenv(name, value)
    return Settings(_env_file=None)
