"""Disk: whether this process can create the files that its runs need."""

import asyncio
import logging
import tempfile
from pathlib import Path

from app.errors import Unavailable
from app.platform.background import forever
from app.platform.logs.dependency import DependencyLog

_EVERY_S = 5.0
_WRITTEN_BYTES = 64 * 1024


class DiskNotWritable(Unavailable):
    """This server cannot write the files of runs now, so no new run is accepted; try again later."""

    code = "disk_unavailable"


def write_new_file(directory: Path) -> None:
    """Create a file, which is removed at once; raises `OSError`."""
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(_WRITTEN_BYTES))
        file.flush()


class Disk:
    """What is known of a directory by checks at intervals and after a failure."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._log = DependencyLog("disk.write_failed", "disk.writable", logging.CRITICAL, each_reason=True)

    @property
    def is_writable(self) -> bool:
        return not self._log

    def require_writable(self) -> None:
        """Raise `DiskNotWritable` if the last check failed."""
        if self._log:
            raise DiskNotWritable

    async def check(self) -> None:
        try:
            await asyncio.to_thread(write_new_file, self.directory)
        except OSError as error:
            self._log.failed(error.strerror or type(error).__name__)
        else:
            self._log.worked()

    async def watch(self) -> None:
        """Check until cancelled."""
        await forever(self.check, _EVERY_S, name="disk.check")
