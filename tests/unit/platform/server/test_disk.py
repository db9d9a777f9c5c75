from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from app.platform.server.disk import Disk, DiskNotWritable
from tests.unit.billing.receipts.test_journal_full_disk import full_at, no_new_files


@pytest.mark.parametrize("broken", [lambda: full_at(1000), no_new_files], ids=["full", "no new files"])
async def test_a_disk_is_not_writable_until_files_can_be_created(
    tmp_path: Path, broken: Callable[[], AbstractContextManager[None]]
) -> None:
    disk = Disk(tmp_path)
    await disk.check()
    disk.require_writable()
    with broken():
        await disk.check()
    assert not disk.is_writable
    with pytest.raises(DiskNotWritable) as error:
        disk.require_writable()
    await disk.check()

    disk.require_writable()
    assert str(tmp_path) not in error.value.detail


async def test_an_outage_of_the_disk_is_two_lines(tmp_path: Path) -> None:
    disk = Disk(tmp_path / "runs")
    with capture_logs() as logs:
        for _ in range(3):
            await disk.check()
        disk.directory.mkdir()
        await disk.check()

    assert [line["event"] for line in logs] == ["disk.write_failed", "disk.writable"]
    assert logs[0]["reason"] == "No such file or directory"
