"""Request bodies: read with a deadline and within a budget, and parsed where that holds up nobody."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

from fastapi import Request
from starlette.exceptions import HTTPException

from app.concurrency.offload import Offload
from app.concurrency.time_slice import TimeSlice
from app.errors import TooLarge, TooSlow
from app.http.admission.body_budget import BodyBudget, Reservation
from app.http.admission.json_scan import JsonScan
from app.http.admission.strict_json import read_json
from app.server.memory import MemoryCeiling

_GRACE_S: Final = 10.0
_LEAST_BYTES_PER_S: Final = 16_384
_SCANNED_AT_ONCE: Final = 4096
_LARGE: Final = 262_144
_COPIES: Final = 4
"""While it is parsed, a body is there as bytes, as text and as values."""

_BAD_REQUEST = 400
_T = TypeVar("_T")


class ClientDisconnected(Exception):
    """The client went away before its request was whole: half of one must not be mistaken for it."""


def announced(request: Request) -> int | None:
    """The bytes a request says its body has; None for one that comes in chunks."""
    if "transfer-encoding" in request.headers:
        return None
    # The server's parser refuses what is no number.
    return int(request.headers.get("content-length", "0"))


class BodyReader:
    """Reads the bodies of all requests."""

    def __init__(
        self,
        budget: BodyBudget,
        memory: MemoryCeiling,
        offload: Offload,
        *,
        max_bytes: int,
        timeout_s: float,
    ) -> None:
        """`max_bytes` is the most any body may have."""
        self._budget = budget
        self._memory = memory
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._offload = offload

    @asynccontextmanager
    async def reading(
        self, request: Request, account: Hashable, *, max_bytes: int | None, scanned: bool
    ) -> AsyncIterator[bytes]:
        """The request's body, whose bytes count while the body of this runs.

        Raises `TooLarge`, `TooManyBodies`, `BodiesFull`, `Overloaded` before anything is read where its size
        is announced; `TooSlow`, `ClientDisconnected`, and for JSON that is too much of it `Invalid`.
        """
        most = self._max_bytes if max_bytes is None else min(max_bytes, self._max_bytes)
        size = announced(request)
        with self._budget.reservation(account) as reservation:
            self._hold(reservation, size or 0, most=most)
            if size == 0:
                yield b""
            else:
                yield await self._read(request, reservation, most=most, scan=JsonScan() if scanned else None)

    async def parsed(self, body: bytes, made: Callable[[Any], _T]) -> _T:
        """What is made of a body's JSON; raises `Invalid`, or `HTTPException` for what is no JSON."""
        return await self._offload.run(lambda: made(_json(body)), size=len(body))

    def _hold(self, reservation: Reservation, size: int, *, most: int) -> None:
        if size > most:
            message = f"The request body is larger than {most} bytes."
            raise TooLarge(message)
        if size > _LARGE and size > reservation.size:
            self._memory.require_room(_COPIES * (size - reservation.size))
        reservation.grow_to(size)

    async def _read(
        self, request: Request, reservation: Reservation, *, most: int, scan: JsonScan | None
    ) -> bytes:
        parts: list[bytes] = []
        size, more = 0, True
        started = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(None) as deadline:
                while more:
                    allowed_s = min(self._timeout_s, _GRACE_S + size / _LEAST_BYTES_PER_S)
                    deadline.reschedule(started + allowed_s)
                    message = await request.receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnected
                    part, more = message.get("body", b""), message.get("more_body", False)
                    size += len(part)
                    self._hold(reservation, size, most=most)
                    if scan is not None:
                        await _scan(scan, part)
                    parts.append(part)
        except TimeoutError as error:
            raise TooSlow from error
        return b"".join(parts)


async def _scan(scan: JsonScan, part: bytes) -> None:
    time_slice = TimeSlice()
    for start in range(0, len(part), _SCANNED_AT_ONCE):
        scan.feed(part[start : start + _SCANNED_AT_ONCE])
        await time_slice.checkpoint()


def _json(body: bytes) -> Any:
    try:
        return read_json(body)
    except (ValueError, RecursionError) as error:
        raise HTTPException(_BAD_REQUEST) from error
