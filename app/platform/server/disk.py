"""Disk: whether this process can create the files that its runs need."""

import asyncio
import logging
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from app.errors import Unavailable
from app.platform.background import forever
from app.platform.logs.dependency import DependencyLog

CHECK_EVERY_S = 5.0

_WRITTEN_BYTES = 64 * 1024
"""A small file may be stored in a directory that has no space for another one."""

_disk_log = partial(
    DependencyLog,
    unavailable="disk.write_failed",
    available="disk.writable",
    level=logging.CRITICAL,
    each_reason=True,
)


class DiskNotWritable(Unavailable):
    """This server cannot write the files of runs now, so no new run is accepted; try again later."""

    code = "disk_unavailable"


def write_new_file(directory: Path) -> None:
    """Create a file in a directory, which is removed at once; raises `OSError`."""
    with tempfile.TemporaryFile(dir=directory) as file:
        file.write(bytes(_WRITTEN_BYTES))
        file.flush()


@dataclass(slots=True)
class Disk:
    """What is known of a directory on this host's disk, by checks at intervals and after a failure."""

    directory: Path
    _log: DependencyLog = field(default_factory=_disk_log, init=False)

    @property
    def is_writable(self) -> bool:
        return not self._log

    def require_writable(self) -> None:
        """Raise `DiskNotWritable` if the last check failed."""
        if not self.is_writable:
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
        await forever(self.check, CHECK_EVERY_S, name="disk.check")
