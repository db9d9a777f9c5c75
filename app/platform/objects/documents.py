"""Long strings of JSON documents, which are stored outside the database; pure."""

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple

from app.ids import AccountId
from app.platform.serialization.large_json import dumps, with_marks

LARGE_BYTES: Final = 65_536
"""Contents of more bytes are stored outside."""

_MARK: Final = re.compile(r'"object:([0-9a-f]{64})"')


class StoredDocument(NamedTuple):
    """A JSON document, some strings of which are stored outside."""

    account_id: AccountId
    text: str
    """Each of these strings is `object:` and its SHA-256."""
    objects: frozenset[str] = frozenset()
    """Their SHA-256. A string like a mark that is none of them is itself: clients may send such strings."""


class ContentsMissing(Exception):
    """These contents have to be read first."""

    def __init__(self, hashes: Collection[str]) -> None:
        super().__init__()
        self.hashes = hashes


def extracted(value: Any) -> tuple[Any, dict[str, bytes]]:
    """The value with marks in place of its long strings, and these by SHA-256."""
    found: dict[str, bytes] = {}

    def mark(text: str) -> str:
        content = text.encode(errors="surrogatepass")
        sha256 = hashlib.sha256(content).hexdigest()
        found[sha256] = content
        return f"object:{sha256}"

    return with_marks(value, mark, longer_than=LARGE_BYTES), found


def restored(value: Any, contents: Mapping[str, bytes]) -> Any:
    """The value that `extracted` was given."""
    match value:
        case str() if (content := contents.get(value.removeprefix("object:"))) is not None:
            return _text(content) if value.startswith("object:") else value
        case dict():
            return {name: restored(each, contents) for name, each in value.items()}
        case list():
            return [restored(each, contents) for each in value]
        case _:
            return value


def restored_text(text: str, contents: Mapping[str, bytes]) -> str:
    """The JSON text of the value that `extracted` was given, by the text of what it has returned."""
    first, *rest = _MARK.split(text)
    pieces = [first]
    for sha256, following in zip(rest[::2], rest[1::2], strict=True):
        content = contents.get(sha256)
        pieces += [json.dumps(f"object:{sha256}") if content is None else dumps(_text(content)), following]
    return "".join(pieces)


def _text(content: bytes) -> str:
    return content.decode(errors="surrogatepass")
