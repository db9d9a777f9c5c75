"""The texts of our own that a wheel has in one compressed archive (`hatch_build.py`)."""

import tarfile
from pathlib import Path
from typing import IO, Final, cast

_APP: Final = Path(__file__).parents[2]
_ARCHIVE: Final = _APP / "texts.tar.bz2"


def shipped_texts(*places: str) -> dict[str, str]:
    """The files at these places, and those of Markdown below them, by their paths in a checkout."""
    if not _ARCHIVE.exists():
        root = _APP.parent
        found = [path for place in places for path in (root / place, *sorted((root / place).rglob("*.md")))]
        texts = {path.relative_to(root).as_posix(): path for path in found if path.is_file()}
        return {name: path.read_text("utf-8") for name, path in texts.items()}
    with tarfile.open(_ARCHIVE) as archive:
        return {
            member.name: cast(IO[bytes], archive.extractfile(member)).read().decode()
            for member in archive
            if member.name.startswith(places)
        }
