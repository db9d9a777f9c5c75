"""BodyReader: reads request bodies within a deadline and a budget, and parses them off the event loop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

from app.errors import TooLarge, TooSlow
from app.http.admission.body_budget import BodyBudget, BodyReservation
from app.http.admission.json_scan import JsonScanner
from app.http.admission.strict_json import read_json
from app.platform.concurrency.offload import Offload
from app.platform.concurrency.time_slice import TimeSlice
from app.platform.server.memory import MemoryCeiling

_GRACE_S: Final = 10.0
_MIN_BYTES_PER_S: Final = 16_384
_SCAN_CHUNK_BYTES: Final = 4096
_LARGE_BODY_BYTES: Final = 262_144
_COPIES_WHILE_PARSING: Final = 4
"""Memory used while parsing, as a multiple of the body: bytes, text and values coexist."""

_BAD_REQUEST = 400
_T = TypeVar("_T")


class ClientDisconnected(Exception):
    """The client disconnected before its request body was complete."""


def announced_size(request: Request) -> int | None:
    """The `Content-Length` in bytes; None for a chunked body."""
    if "transfer-encoding" in request.headers:
        return None
    # The HTTP parser has already rejected values that are not numbers.
    return int(request.headers.get("content-length", "0"))


@dataclass(frozen=True, slots=True)
class BodyReader:
    """Reads the bodies of all requests."""

    budget: BodyBudget
    memory: MemoryCeiling
    offload: Offload
    max_bytes: int
    """Limits every body, whatever its route allows."""
    timeout_s: float

    @asynccontextmanager
    async def open(
        self, request: Request, account: Hashable, *, max_bytes: int | None, scan_json: bool
    ) -> AsyncIterator[bytes]:
        """Read a request's body; its bytes count against the budget while the `async with` block runs.

        Raises `TooLarge`, `TooManyBodies`, `BodiesFull`, `Overloaded`: before reading if the request has a
        `Content-Length`. Raises `TooSlow`, `ClientDisconnected`, and `Invalid` for JSON with too many values.
        """
        limit = self.max_bytes if max_bytes is None else min(max_bytes, self.max_bytes)
        size = announced_size(request)
        with self.budget.reservation(account) as reservation:
            self._reserve(reservation, size or 0, limit=limit)
            if size == 0:
                yield b""
            else:
                yield await self._read(
                    request, reservation, limit=limit, scan=JsonScanner() if scan_json else None
                )

    async def parse(self, body: bytes, convert: Callable[[Any], _T]) -> _T:
        """Parse JSON and convert it off the event loop; raises `Invalid`, or `HTTPException` if malformed."""
        return await self.offload.run(lambda: convert(_parse_json(body)), size=len(body))

    def _reserve(self, reservation: BodyReservation, size: int, *, limit: int) -> None:
        if size > limit:
            raise TooLarge(f"The request body is larger than {limit} bytes.")
        if size > _LARGE_BODY_BYTES and size > reservation.size:
            self.memory.require_room(_COPIES_WHILE_PARSING * (size - reservation.size))
        reservation.grow_to(size)

    async def _read(
        self, request: Request, reservation: BodyReservation, *, limit: int, scan: JsonScanner | None
    ) -> bytes:
        parts: list[bytes] = []
        size, more = 0, True
        started = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(None) as deadline:
                while more:
                    allowed_s = min(self.timeout_s, _GRACE_S + size / _MIN_BYTES_PER_S)
                    deadline.reschedule(started + allowed_s)
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnected
                    part, more = message.get("body", b""), message.get("more_body", False)
                    size += len(part)
                    self._reserve(reservation, size, limit=limit)
                    if scan is not None:
                        await _scan(scan, part)
                    parts.append(part)
        except TimeoutError as error:
            raise TooSlow from error
        return b"".join(parts)


async def _scan(scan: JsonScanner, part: bytes) -> None:
    time_slice = TimeSlice()
    for start in range(0, len(part), _SCAN_CHUNK_BYTES):
        scan.feed(part[start : start + _SCAN_CHUNK_BYTES])
        await time_slice.checkpoint()


def _parse_json(body: bytes) -> Any:
    try:
        return read_json(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(_BAD_REQUEST) from error
