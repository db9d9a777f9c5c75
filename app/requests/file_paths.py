"""Paths of files in requests and workspaces."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator

_PATH_BYTES = 1024
_NAME_BYTES = 255
_DELETE = 127


def relative_path(path: str) -> str:
    """The path if it is relative, normalized and stays below its directory; raises `ValueError`."""
    names = path.split("/")
    if any(name in {"", ".", ".."} for name in names):
        raise ValueError("must be relative, without empty parts, . and ..")
    if any(ord(char) < ord(" ") or ord(char) == _DELETE or char == "\\" for char in path):
        raise ValueError("must not contain control characters or backslashes")
    if len(path.encode()) > _PATH_BYTES or any(len(name.encode()) > _NAME_BYTES for name in names):
        message = f"must not be longer than {_PATH_BYTES} bytes, and no part longer than {_NAME_BYTES}"
        raise ValueError(message)
    return path


FilePath = Annotated[str, AfterValidator(relative_path)]
"""A relative path in a workspace."""


def require_distinct(paths: Sequence[str]) -> None:
    """Raise `ValueError` if two of these paths cannot both be files."""
    found = set(paths)
    if len(found) < len(paths):
        raise ValueError("contains a path twice")
    if any(str(above) in found for path in found for above in PurePosixPath(path).parents):
        raise ValueError("uses a path both as a file and as a directory")
