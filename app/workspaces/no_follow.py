"""Opens files without following symbolic links."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_UNAVAILABLE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES, errno.EPERM}


@contextmanager
def open_no_follow(name: str | Path, directory: int | None, flags: int) -> Iterator[int | None]:
    """A descriptor while the body runs; None if the file is a link, of another type, missing or not readable.

    `name` is relative to the open `directory`, if one is given.
    """
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno not in _UNAVAILABLE:
            raise
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)
