"""Installed packages with entry points."""

from collections.abc import Mapping
from pathlib import Path

import pytest


def install(directory: Path, monkeypatch: pytest.MonkeyPatch, **groups: Mapping[str, str]) -> None:
    """Install a package with entry points; `groups` are the last words of their groups."""
    about = directory / "extensions-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: extensions\nVersion: 1.0\n")
    lines = [
        f"[runtally.{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in groups.items()
    ]
    (about / "entry_points.txt").write_text("".join(lines))
    monkeypatch.syspath_prepend(str(directory))
