"""Replacing a file at once: its readers get what it had or what it has, and a failure leaves it as it was."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path, *, mode: int = 0o666) -> Iterator[Path]:
    """An empty file to write into, which takes the place of `path` at the end; raises `OSError`.

    Where that is a link, the file that it names is replaced. A file keeps what `mode` allows of its own; a
    new one gets `mode` without what the umask withholds, and so has the one that is written meanwhile.
    """
    file = Path(os.path.realpath(path))
    beside = file.with_name(f".{file.name}.new")
    try:
        beside.unlink(missing_ok=True)
        beside.touch(mode=mode)
        yield beside
        if file.exists():
            beside.chmod(stat.S_IMODE(file.stat().st_mode) & mode)
        beside.replace(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
