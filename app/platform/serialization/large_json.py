"""Large JSON: written in chunks so that other threads can run, and measured before parsing; pure."""

import json
import re
import secrets
from collections.abc import Callable, Iterator
from typing import Any, Final

_LONG_CHARS: Final = 1024
_WRITTEN_AT_ONCE: Final = 262_144
"""Characters: writing a string of 19 MB at once would block the event loop for 40 ms."""


def dumps(value: Any, *, ascii_only: bool = False) -> str:
    token, texts = secrets.token_hex(16), list[str]()

    def mark(text: str) -> str:
        texts.append(text)
        return f"{token}{len(texts) - 1}"

    marked = _json(with_marks(value, mark), ascii_only=ascii_only)
    if not texts:
        # `re` would compile the pattern, and keep it.
        return marked
    short, *rest = re.split(f'"{token}([0-9]+)"', marked)
    pieces = [short]
    for number, short in zip(rest[::2], rest[1::2], strict=True):
        pieces += ['"', *_written(texts[int(number)], ascii_only=ascii_only), '"', short]
    return "".join(pieces)


def count_parts(text: bytes | bytearray) -> int:
    """The number of commas and opening brackets: about as many values as parsing creates."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def parsing_size(text: bytes) -> int:
    """How long it takes to parse this, as a number of bytes: those of long strings cost next to nothing."""
    return len(text) // 8 + 3 * count_parts(text)


def with_marks(value: Any, mark: Callable[[str], str], *, longer_than: int = _LONG_CHARS) -> Any:
    """The JSON value with each string of more characters replaced by `mark(string)`."""
    match value:
        case str() if len(value) > longer_than:
            return mark(value)
        case dict():
            return {name: with_marks(each, mark, longer_than=longer_than) for name, each in value.items()}
        case list():
            return [with_marks(each, mark, longer_than=longer_than) for each in value]
        case _:
            return value


def _written(text: str, *, ascii_only: bool) -> Iterator[str]:
    for start in range(0, len(text), _WRITTEN_AT_ONCE):
        yield _json(text[start : start + _WRITTEN_AT_ONCE], ascii_only=ascii_only)[1:-1]


def _json(value: Any, *, ascii_only: bool) -> str:
    return json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
