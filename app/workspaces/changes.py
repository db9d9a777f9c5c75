"""ChangeReport: what a run changed in its workspace, with differences of texts; bounded in size and work."""

import re
from difflib import unified_diff
from itertools import takewhile

from app.requests.outcome import FileChange, FileChanges

MAX_TEXT_BYTES = 64 * 1024
"""A larger file is only named."""

_FILES = 200
_CHARS = 64 * 1024
"""Of all paths and differences together."""

_CONTEXT = 3
_NUMBERS = re.compile(r"(?<=[-+])\d+")
"""Of the first lines, in the head of a hunk."""

_LINES_EACH = 400
_LINES = 4_000
"""So many lines are compared of a file, and of all files together: each with each, in the worst case."""


class ChangeReport:
    """Collects the changes, which are added in the order of their paths."""

    def __init__(self) -> None:
        self._files: list[FileChange] = []
        self._more = 0
        self._chars = _CHARS
        self._lines = _LINES

    def created(self, path: str, after: bytes | None) -> None:
        """A file was created; None for a content that is not shown."""
        self._add(FileChange(path=path, change="created", diff=self._diff(path, b"", after)))

    def changed(self, path: str, before: bytes | None, after: bytes | None) -> None:
        """A file was changed."""
        self._add(FileChange(path=path, change="changed", diff=self._diff(path, before, after)))

    def deleted(self, path: str, before: bytes | None) -> None:
        """A file was deleted."""
        self._add(FileChange(path=path, change="deleted", diff=self._diff(path, before, b"")))

    def result(self) -> FileChanges:
        """The changes."""
        return FileChanges(files=tuple(self._files), more=self._more)

    def _add(self, change: FileChange) -> None:
        chars = self._chars - len(change.path)
        if len(self._files) == _FILES or chars < 0:
            self._more += 1
            return
        if change.diff is not None and len(change.diff) > chars:
            change = change.model_copy(update={"diff": None})
        self._chars = chars - len(change.diff or "")
        self._files.append(change)

    def _diff(self, path: str, before: bytes | None, after: bytes | None) -> str | None:
        old, new = _lines_of(before), _lines_of(after)
        if old is None or new is None or len(self._files) == _FILES:
            return None
        # What both have at the beginning and at the end is not compared again, except for some lines around.
        skipped = max(0, _common(old, new) - _CONTEXT)
        last = max(0, _common(old[skipped:][::-1], new[skipped:][::-1]) - _CONTEXT)
        old, new = old[skipped : len(old) - last], new[skipped : len(new) - last]
        compared = max(len(old), len(new)) if old and new else 0
        self._lines -= compared
        if compared > _LINES_EACH or self._lines < 0:
            return None
        lines = unified_diff(old, new, f"a/{path}", f"b/{path}", lineterm="", n=_CONTEXT)
        return "\n".join(_moved(line, skipped) for line in lines) or None


def _moved(line: str, by: int) -> str:
    """A line of a difference that begins so many lines later."""
    return _NUMBERS.sub(lambda found: str(int(found[0]) + by), line) if line.startswith("@@ -") else line


def _common(one: list[str], other: list[str]) -> int:
    """How many lines both begin with."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _lines_of(content: bytes | None) -> list[str] | None:
    """The lines of a text; None for anything else."""
    if content is None or len(content) > MAX_TEXT_BYTES or b"\0" in content:
        return None
    try:
        *lines, last = content.decode().split("\n")
    except UnicodeDecodeError:
        return None
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines
