"""RequestBodies: reads agents' request bodies within a deadline and a memory budget."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

from app.platform.server.loopback import Receive, Scope

BODY_BYTES: Final = 32 * 1024 * 1024
"""Limit of one request: that of the Messages API."""

RUN_BYTES: Final = 2 * BODY_BYTES
"""Limit of all current requests of one run together."""

TOTAL_BYTES: Final = 256 * 1024 * 1024
"""Limit of all current requests together."""

BODY_S: Final = 30.0
"""How long a body may take to arrive."""


class BodyRefused(Exception):
    """A body is refused; `status` is the HTTP status of the response."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(status)


class HiddenDirectory:
    """A directory of this machine whose path the provider does not get: a model may tell clients what it got.

    The CLI stores the images of messages and of tool results as files, and names these files beside them.
    """

    def __init__(self, directory: Path, *, entries: str) -> None:
        """`entries` is a pattern of the names in it: only with one of them the path is no user's own text."""
        # The longest first: it may contain the other one.
        paths = sorted({str(directory.absolute()), str(directory.resolve())}, key=len, reverse=True)
        self._names: list[tuple[bytes, re.Pattern[bytes], bytes]] = []
        for path in paths:
            # The CLI derives names of directories from paths in this way.
            derived = re.sub("[^A-Za-z0-9]", "-", path)
            for name, end in ((json.dumps(path, ensure_ascii=False)[1:-1], "/"), (derived, "-")):
                pattern = re.compile(f"{re.escape(name)}(?={end}{entries}{end})".encode())
                self._names.append((name.encode(), pattern, f"{end}agent".encode()))

    def remove_from(self, body: bytes) -> bytes:
        """The body with another name for the directory."""
        for name, pattern, replacement in self._names:
            # Much faster than the pattern.
            if name in body:
                body = pattern.sub(replacement, body)
        return body


class RequestBodies:
    """The bodies of all current requests."""

    def __init__(self, *, within_s: float = BODY_S, hidden: HiddenDirectory | None = None) -> None:
        """`within_s`: how long a body may take to arrive."""
        self._within_s = within_s
        self._hidden = hidden
        self._held: Counter[str] = Counter()

    @property
    def held_bytes(self) -> int:
        """The size of all bodies together."""
        return self._held.total()

    @asynccontextmanager
    async def reading(self, owner: str, scope: Scope, receive: Receive) -> AsyncIterator[bytes]:
        """A request's body, counted for its owner until the context ends; raises `BodyRefused`."""
        parts: list[bytes] = []
        try:
            if _announced(scope) > BODY_BYTES:
                raise BodyRefused(413)
            await self._read(owner, receive, parts)
            parts[:] = [b"".join(parts)]
            yield parts[0] if self._hidden is None else self._hidden.remove_from(parts[0])
        finally:
            self._release(owner, sum(map(len, parts)))

    @contextmanager
    def holding(self, owner: str, body: bytes) -> Iterator[None]:
        """Count a body that was read elsewhere, until the context ends; raises `BodyRefused`."""
        self._held[owner] += len(body)
        try:
            self._require_room(owner)
            yield
        finally:
            self._release(owner, len(body))

    async def _read(self, owner: str, receive: Receive, parts: list[bytes]) -> None:
        try:
            async with asyncio.timeout(self._within_s):
                while self._add(owner, await receive(), parts):
                    pass
        except TimeoutError as error:
            raise BodyRefused(408) from error

    def _add(self, owner: str, part: Mapping[str, Any], parts: list[bytes]) -> bool:
        """Add a piece of the body; returns whether more will come."""
        if part["type"] == "http.disconnect":
            # An incomplete request is not processed.
            raise BodyRefused(400)
        parts.append(part.get("body", b""))
        self._held[owner] += len(parts[-1])
        if sum(map(len, parts)) > BODY_BYTES:
            raise BodyRefused(413)
        self._require_room(owner)
        return bool(part.get("more_body", False))

    def _require_room(self, owner: str) -> None:
        if self._held[owner] > RUN_BYTES or self.held_bytes > TOTAL_BYTES:
            raise BodyRefused(529)

    def _release(self, owner: str, size: int) -> None:
        self._held[owner] -= size
        self._held = +self._held


def _announced(scope: Scope) -> int:
    lengths = [value for name, value in scope["headers"] if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0
