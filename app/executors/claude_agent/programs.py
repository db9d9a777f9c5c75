"""The PATH of programs that start the CLI, and how generated programs are written."""

import os
from pathlib import Path

PROGRAM_PATH = "/usr/local/bin:/usr/bin:/bin"
LONGEST_TIMER_S = (2**31 - 1) / 1000
"""About 25 days: a longer timer of the CLI's runtime would be over at once."""


def write_program(path: Path, text: str) -> Path:
    """Write a new program, readable by the server's user only."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    return path
