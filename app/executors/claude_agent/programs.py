"""Programs the CLI is started with: where they are looked for, and how one of ours is written."""

import os
from pathlib import Path

PROGRAM_PATH = "/usr/local/bin:/usr/bin:/bin"


def write_program(path: Path, text: str) -> Path:
    """Write a new program that only we may read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path
