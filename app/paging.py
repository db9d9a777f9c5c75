"""Keyset pagination: where the next page of a list begins."""

import base64
import binascii
import json
from datetime import datetime
from typing import NamedTuple

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
            created_at, item_id = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
            moment = datetime.fromisoformat(created_at)
        except (ValueError, TypeError, binascii.Error) as error:
            raise Invalid.field("cursor", "is not a cursor of this list") from error
        if moment.tzinfo is None or not isinstance(item_id, str) or "\x00" in item_id:
            raise Invalid.field("cursor", "is not a cursor of this list")
        return cls(moment, item_id)
