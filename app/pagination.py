"""Keyset pagination: where the next page of a list begins."""

import base64
import json
from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from app.errors import Invalid

MAX_PAGE = 200


class Cursor(NamedTuple):
    """The last item of a page: lists are ordered by time, then by id, newest first."""

    created_at: datetime
    id: str

    def encode(self) -> str:
        """The opaque, URL-safe form clients pass back."""
        plain = json.dumps([self.created_at.isoformat(), self.id])
        return base64.urlsafe_b64encode(plain.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> "Cursor":
        """Read a client's cursor; raises `Invalid` naming `cursor`."""
        try:
            padded = text + "=" * (-len(text) % 4)
            plain = base64.b64decode(padded.encode("ascii"), altchars=b"-_", validate=True)
            created_at, item_id = json.loads(plain)
            # In UTC, so that a moment the calendar cannot hold there is found out here.
            moment = datetime.fromisoformat(created_at).astimezone(UTC)
            item_id.encode()
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise Invalid.field("cursor", "is not a cursor of this list") from error
        if "\x00" in item_id:
            raise Invalid.field("cursor", "is not a cursor of this list")
        return cls(moment, item_id)

    @classmethod
    def of_uuids(cls, text: str) -> "Cursor":
        """Read a cursor of a list whose ids are UUIDs."""
        cursor = cls.decode(text)
        try:
            UUID(cursor.id)
        except ValueError as error:
            raise Invalid.field("cursor", "is not a cursor of this list") from error
        return cursor
