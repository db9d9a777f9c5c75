"""Looks for words everywhere a server may keep them."""

import base64
import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import redis.asyncio

_TABLES = """
    SELECT relname FROM pg_class WHERE relkind IN ('r', 'm', 'p') AND relnamespace = 'public'::regnamespace
"""


def spellings(word: str) -> set[str]:
    """How a word may be written: as it is, in JSON, in hexadecimal and, wherever it begins, in base64."""
    data = word.encode()
    escaped = {json.dumps(word)[1:-1], json.dumps(word, ensure_ascii=False)[1:-1]}
    # Without the characters that depend on what is before and after.
    in_base64 = {
        base64.b64encode(b"\0" * shift + data).decode()[(0, 2, 3)[shift] :].rstrip("=")[:-1]
        for shift in range(3)
    }
    return {word, data.hex(), *escaped, *in_base64}


def written_in(text: str, words: Iterable[str]) -> set[str]:
    """Those of these words that are in a text."""
    return {word for word in words if any(each in text for each in spellings(word))}


async def in_tables(url: str, words: Iterable[str]) -> set[tuple[str, str]]:
    """The tables of a database and the words that are in their rows."""
    connection = await asyncpg.connect(url)
    try:
        names = await connection.fetch(_TABLES)
        assert names
        found = set()
        for (name,) in names:
            for (row,) in await connection.fetch(f'SELECT t::text FROM "{name}" AS t'):  # noqa: S608
                # A row as text doubles quotes and backslashes.
                text = row + row.replace('""', '"').replace("\\\\", "\\")
                found |= {(name, word) for word in written_in(text, words)}
        return found
    finally:
        await connection.close()


def in_files(directory: Path, words: Iterable[str]) -> set[tuple[str, str]]:
    """The files below a directory and the words that are in their names or contents."""
    found = set()
    for path in directory.rglob("*"):
        # Some are deleted meanwhile.
        with suppress(FileNotFoundError):
            if path.is_file() and not path.is_symlink():
                text = f"{path} {path.read_bytes().decode(errors='replace')}"
                found |= {(str(path), word) for word in written_in(text, words)}
    return found


async def in_relay(url: str, words: Iterable[str]) -> set[tuple[str, str]]:
    """The keys of a relay and the words that are in them."""
    async with redis.asyncio.from_url(url) as client:
        found = set()
        async for key in client.scan_iter():
            text = f"{key!r} {await _dumped(client, key)}"
            found |= {(repr(key), word) for word in written_in(text, words)}
        return found


async def _dumped(client: Any, key: bytes) -> str:
    if await client.type(key) == b"stream":
        entries = await client.xrange(key)
        values = [value for _, fields in entries for value in fields.values()]
    else:
        values = [await client.get(key) or b""]
    return b" ".join(values).decode(errors="replace")
