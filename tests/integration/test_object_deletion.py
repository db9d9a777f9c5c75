"""Deletion of large contents where the storage refuses to delete one of them."""

from pathlib import Path

import pytest

from app.auth.records import KeyRecord
from app.platform.db import Database
from app.platform.network import DIRECT
from app.platform.objects.service import Objects
from app.platform.objects.storage import ContentsUnavailable, ObjectStorage
from tests.integration.statements import execute, rows


async def test_one_that_cannot_be_deleted_holds_up_no_other(
    database: Database, key: KeyRecord, tmp_path: Path
) -> None:
    objects = Objects((database, ObjectStorage(f"file://{tmp_path}", None, DIRECT)))
    names = [f"{number:064x}" for number in range(3)]
    await objects.write(key.account_id, dict.fromkeys(names, b"content"))
    refused = tmp_path / str(key.account_id) / names[1]
    refused.unlink()
    # No storage deletes what is not empty.
    (refused / "directory").mkdir(parents=True)
    in_order = "now() - interval '1 day' + right(sha256, 1)::int * interval '1 s'"
    await execute(database, f"UPDATE stored_objects SET check_at = {in_order}")  # noqa: S608 - a constant

    with pytest.raises(ContentsUnavailable):
        await objects.delete_unused()
    looked_at = await objects.delete_unused()

    left = await rows(database, "SELECT sha256, check_at > now() AS is_later FROM stored_objects")
    assert looked_at == 1
    assert [(row.sha256, row.is_later) for row in left] == [(names[1], True)]
    assert [path.name for path in (tmp_path / str(key.account_id)).iterdir()] == [names[1]]
