"""The file `.env`, read strictly: of a line that it cannot parse the library only logs that it is skipped."""

import re
from io import StringIO
from pathlib import Path

from dotenv import dotenv_values
from dotenv.parser import parse_stream

ENCODING = "utf-8-sig"
"""Editors put a byte order mark before the first name, which would be a part of it."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")


class EnvFileInvalid(Exception):
    """The file cannot be used; the text says why."""


def read_env_file(path: Path) -> dict[str, str | None]:
    """The variables of a file, none if it is missing; raises `EnvFileInvalid` for a line that sets none."""
    # What is read of a pipe is gone.
    if not path.exists() or path.is_fifo():
        return {}
    try:
        text = path.read_text(encoding=ENCODING)
    except UnicodeDecodeError as error:
        raise EnvFileInvalid("is not UTF-8 text") from error
    except OSError as error:
        message = f"cannot be read: {error.strerror}; correct its owner and permissions"
        raise EnvFileInvalid(message) from error
    for binding in parse_stream(StringIO(text)):
        if binding.error or not _NAME.fullmatch(binding.key or "A"):
            given = binding.original.string
            line = binding.original.line + given[: len(given) - len(given.lstrip())].count("\n")
            raise EnvFileInvalid(f"line {line} is not NAME=value, or its quotes are not closed")
    return dotenv_values(stream=StringIO(text))
