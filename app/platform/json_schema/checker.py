"""SchemaChecker: checks untrusted JSON schemas, and values against them."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic_core import PydanticSerializationError, to_json

from app.errors import Unavailable
from app.platform.confined.pool import WorkerEnded, WorkerPool
from app.platform.json_schema.document import SchemaDocument, SchemaUnusable, pointer
from app.platform.json_schema.handler import HEADER

MAX_VALUE_BYTES = 4 * 1024 * 1024
_MAX_WAITING = 16
"""Waiting checks of one account; more are refused."""
_MAX_REMEMBERED = 4_096
_HANDLER = Path(__file__).with_name("handler.py")


class SchemasBusy(Unavailable):
    """Too many JSON schemas are being checked now; try again later."""


class ValueUncheckable(Exception):
    """The value cannot be checked against its schema within the limits; the text is the reason."""


class CheckerUnavailable(Unavailable):
    """JSON schemas cannot be checked now; try again later."""


@dataclass(frozen=True, slots=True)
class SchemaMismatch:
    """The path to the value that does not match its schema, and the reason."""

    path: tuple[str, ...]
    reason: str


class SchemaChecker:
    """Checks schemas and values in processes that are killed when they take too long.

    `owner` identifies whose schema it is; owners take turns, so none blocks the others.
    """

    def __init__(self, *, workers: int, check_s: float) -> None:
        self.pool = WorkerPool(workers=workers, check_s=check_s)
        """Its processes; other work on foreign input shares them."""
        self._usable: dict[bytes, None] = {}
        """The digests of the latest documents that were found usable, oldest first."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.pool.aclose()

    async def require_usable(
        self, schema: dict[str, Any], *, owner: str, max_waiting: int | None = _MAX_WAITING
    ) -> SchemaDocument:
        """The schema to check values against; raises `SchemasBusy` if so many checks of the owner wait.

        Raises `SchemaUnusable` if it is none, has external references or takes too long to check, and
        `CheckerUnavailable` without processes.
        """
        document = SchemaDocument.of(schema)
        digest = hashlib.sha256(b"%d %s" % (document.dialect, document.text)).digest()
        if digest in self._usable:
            return document
        if max_waiting is not None and self.pool.waiting(owner) >= max_waiting:
            raise SchemasBusy(retry_after_s=1)
        try:
            # Check a value as well: some schemas loop endlessly only then.
            verdict, path, reason = await self._check(document, b"{}", owner)
        except WorkerEnded as error:
            raise SchemaUnusable("#", str(error)) from error
        except OSError as error:
            raise CheckerUnavailable(retry_after_s=1) from error
        if verdict == "unusable":
            raise SchemaUnusable(pointer(path), reason)
        self._usable[digest] = None
        if len(self._usable) > _MAX_REMEMBERED:
            del self._usable[next(iter(self._usable))]
        return document

    async def mismatch(self, document: SchemaDocument, value: Any, *, owner: str) -> SchemaMismatch | None:
        """The first mismatch or None; raises `SchemaUnusable`, `ValueUncheckable`, `CheckerUnavailable`."""
        try:
            verdict, path, reason = await self._check(document, value_as_json(value), owner)
        except WorkerEnded as error:
            raise ValueUncheckable(str(error)) from error
        except OSError as error:
            raise CheckerUnavailable(retry_after_s=1) from error
        match verdict:
            case "unusable":
                raise SchemaUnusable(pointer(path), reason)
            case "uncheckable":
                raise ValueUncheckable(reason)
            case "mismatch":
                return SchemaMismatch(tuple(map(str, path)), reason)
            case _:
                return None

    async def _check(self, document: SchemaDocument, value: bytes, owner: str) -> list[Any]:
        """Verdict, path and reason."""
        header = HEADER.pack(document.dialect, len(document.text))
        return await self.pool.call(_HANDLER, header + document.text + value, owner=owner)


def value_as_json(value: Any) -> bytes:
    """The JSON of a value within `MAX_VALUE_BYTES`; raises `ValueUncheckable`."""
    try:
        text = to_json(value)
    except (PydanticSerializationError, ValueError) as error:
        raise ValueUncheckable("cannot be written as JSON") from error
    if len(text) > MAX_VALUE_BYTES:
        raise ValueUncheckable(f"is larger than {MAX_VALUE_BYTES} bytes")
    return text
