"""The file `.env`: what keeps it from being read as it was meant; a line that is skipped is only in a log."""

import re
from pathlib import Path

from dotenv.parser import parse_stream

ENCODING = "utf-8-sig"
"""Editors put a byte order mark before the first name, which would be a part of it."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class EnvFileInvalid(Exception):
    """The file cannot be used; the text says why."""


def require_readable(path: Path) -> None:
    """Raise `EnvFileInvalid` for a file with a line that sets no variable."""
    # What is read of a pipe is gone.
    if not path.exists() or path.is_fifo():
        return
    try:
        with path.open(encoding=ENCODING) as file:
            bindings = list(parse_stream(file))
    except UnicodeDecodeError as error:
        raise EnvFileInvalid("is not UTF-8 text") from error
    except OSError as error:
        message = f"cannot be read: {error.strerror}; correct its owner and permissions"
        raise EnvFileInvalid(message) from error
    for binding in bindings:
        if binding.error or not _NAME.fullmatch(binding.key or "A"):
            text = binding.original.string
            line = binding.original.line + text[: len(text) - len(text.lstrip())].count("\n")
            raise EnvFileInvalid(f"line {line} is not NAME=value, or its quotes are not closed")
