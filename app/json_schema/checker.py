"""SchemaChecker: the one place where foreign JSON schemas are checked, and values held against them."""

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from pydantic_core import PydanticSerializationError, to_json

from app.errors import Unavailable
from app.json_schema.document import SchemaDocument, SchemaUnusable, pointer
from app.json_schema.pool import WorkerEnded, WorkerPool

MAX_VALUE_BYTES = 4 * 1024 * 1024
_MAX_WAITING = 16
"""Of one owner, before further schemas are refused."""


class ValueUncheckable(Exception):
    """A value cannot be held against its schema within the limits; the text says why."""


class CheckerUnavailable(Unavailable):
    """JSON schemas cannot be checked now; try again later."""


@dataclass(frozen=True, slots=True)
class SchemaMismatch:
    """Where a value does not match its schema, by the names on the way there, and why."""

    path: tuple[str, ...]
    reason: str


class SchemaChecker:
    """Checks schemas and values in processes that are killed when they take too long.

    `owner` is whose schema it is: owners take turns, so nobody's keep the others' waiting.
    """

    def __init__(self, *, workers: int, check_s: float) -> None:
        self._pool = WorkerPool(workers=workers, check_s=check_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._pool.aclose()

    async def require_usable(self, schema: dict[str, Any], *, owner: str) -> None:
        """Raise `SchemaUnusable` for what is no schema, reaches outside itself or takes too long.

        Raises `SchemasBusy` when too many of the owner's wait, `CheckerUnavailable` without processes.
        """
        document = SchemaDocument.of(schema)
        try:
            # With a value: some schemas show only then that they never come to an end.
            verdict, path, reason = await self._pool.check(
                document, b"{}", owner=owner, max_waiting=_MAX_WAITING
            )
        except WorkerEnded as error:
            raise SchemaUnusable("#", str(error)) from error
        except OSError as error:
            raise CheckerUnavailable(retry_after_s=1) from error
        if verdict == "unusable":
            raise SchemaUnusable(pointer(path), reason)

    async def mismatch(self, schema: dict[str, Any], value: Any, *, owner: str) -> SchemaMismatch | None:
        """Why the value does not match; raises `SchemaUnusable`, `ValueUncheckable`, `CheckerUnavailable`."""
        document = SchemaDocument.of(schema)
        try:
            verdict, path, reason = await self._pool.check(document, _as_json(value), owner=owner)
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


def _as_json(value: Any) -> bytes:
    try:
        text = to_json(value)
    except (PydanticSerializationError, ValueError) as error:
        message = "cannot be written as JSON"
        raise ValueUncheckable(message) from error
    if len(text) > MAX_VALUE_BYTES:
        message = f"is larger than {MAX_VALUE_BYTES} bytes"
        raise ValueUncheckable(message)
    return text
