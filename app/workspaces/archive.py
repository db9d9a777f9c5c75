"""Archive: files as a ZIP or TAR archive, piece by piece; times and owners are the same in every one."""

import io
import tarfile
import zipfile
from typing import Literal, TypeAlias

from app.workspaces.records import GivenFile

ArchiveFormat: TypeAlias = Literal["zip", "tar"]

_FIRST_MOMENT = (1980, 1, 1, 0, 0, 0)
"""The earliest that a ZIP archive can name."""

_PLAIN, _EXECUTABLE = 0o644, 0o755
_REGULAR = 0o100000
_UNIX = 3


class _Pieces(io.RawIOBase):
    """What was written since it was last taken; it cannot be read or sought."""

    def __init__(self) -> None:
        self._written: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview, /) -> int:  # type: ignore[override]
        self._written.append(bytes(data))
        return len(data)

    def close(self) -> None:
        """It stays open: an archive that is left writes its end when it is collected, maybe after this."""

    def take(self) -> bytes:
        taken = b"".join(self._written)
        self._written.clear()
        return taken


class Archive:
    """An archive that is written file by file."""

    def __init__(self, form: ArchiveFormat) -> None:
        self._pieces = _Pieces()
        self._file: zipfile.ZipFile | tarfile.TarFile
        if form == "zip":
            self._file = zipfile.ZipFile(self._pieces, "w", zipfile.ZIP_DEFLATED)
        else:
            self._file = tarfile.TarFile.open(mode="w|", fileobj=self._pieces, format=tarfile.PAX_FORMAT)

    def add(self, file: GivenFile) -> bytes:
        """Add a file; returns the next piece of the archive."""
        mode = _EXECUTABLE if file.is_executable else _PLAIN
        if isinstance(self._file, zipfile.ZipFile):
            entry = zipfile.ZipInfo(file.path, _FIRST_MOMENT)
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, _UNIX
            entry.external_attr = (_REGULAR | mode) << 16
            self._file.writestr(entry, file.content)
        else:
            member = tarfile.TarInfo(file.path)
            member.size, member.mode = len(file.content), mode
            self._file.addfile(member, io.BytesIO(file.content))
        return self._pieces.take()

    def end(self) -> bytes:
        """The last piece."""
        self._file.close()
        return self._pieces.take()
