"""The texts of our own that a wheel has compressed (`hatch_build.py`)."""

import gzip
from pathlib import Path


def shipped_text(path: Path) -> str:
    """The text of a file of ours, which is compressed beside this path where the package is installed."""
    compressed = path.with_name(f"{path.name}.gz")
    if compressed.exists():
        return gzip.decompress(compressed.read_bytes()).decode()
    return path.read_text("utf-8")
