"""Keyset pagination: PageRequest is a page of a list that is ordered by time and id, newest first."""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar
from uuid import UUID

from app.errors import Invalid

MAX_PAGE = 200

_T = TypeVar("_T")


class Cursor(NamedTuple):
    """The position of an item in such a list."""

    at: datetime
    id: str

    def encode(self) -> str:
        """The opaque, URL-safe form that clients pass back."""
        plain = json.dumps([self.at.isoformat(), self.id])
        return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> "Cursor":
        """Parse a client's cursor; raises `Invalid` naming `cursor`."""
        try:
            padded = text + "=" * (-len(text) % 4)
            plain = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
            at, item_id = json.loads(plain)
            # Converted to UTC here, so that a time outside the calendar is refused.
            moment = datetime.fromisoformat(at).astimezone(UTC)
            item_id.encode()
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise _invalid_cursor() from error
        if "\x00" in item_id:
            raise _invalid_cursor()
        return cls(moment, item_id)


@dataclass(frozen=True, slots=True)
class PageRequest:
    """At most `limit` items that follow `before`, which is None for the first page."""

    limit: int
    before: tuple[datetime, str | UUID] | None = None

    @classmethod
    def of(cls, limit: int, cursor: str | None) -> "PageRequest":
        """The page after a client's cursor; raises `Invalid` naming `cursor`."""
        return cls(limit, None if cursor is None else Cursor.decode(cursor))

    @classmethod
    def of_uuids(cls, limit: int, cursor: str | None) -> "PageRequest":
        """The same for a list whose ids are UUIDs."""
        if cursor is None:
            return cls(limit)
        at, item_id = Cursor.decode(cursor)
        try:
            return cls(limit, (at, UUID(item_id)))
        except ValueError as error:
            raise _invalid_cursor() from error

    @property
    def fetched(self) -> int:
        """How many items to read: one more than fits shows whether there is a next page."""
        return self.limit + 1

    def cut(
        self, found: Sequence[_T], position: Callable[[_T], tuple[datetime, object]]
    ) -> tuple[list[_T], str | None]:
        """The items of the page, from up to `fetched` items, and the cursor of the next page, if any.

        `position` gives an item's time and id.
        """
        if len(found) <= self.limit:
            return list(found), None
        at, item_id = position(found[self.limit - 1])
        return list(found[: self.limit]), Cursor(at, str(item_id)).encode()


def _invalid_cursor() -> Invalid:
    return Invalid.field("cursor", "is not a cursor of this list")
