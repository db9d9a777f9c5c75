"""Entries of the ledger as they are listed."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from app.errors import Invalid

HOLDS = frozenset({"reservation", "release"})
"""Kinds of entries that hold credit for runs meanwhile, and change no balance."""

_CURSOR = re.compile(r"([0-9]{1,18})_(-?[0-9]{1,20})", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListedEntry:
    """An entry of an account's ledger; `credits` is what it adds."""

    id: int
    position: int
    """In the account's hash chain: the order in which entries were committed."""
    kind: str
    credits: int
    receipt_id: UUID | None
    run_id: str | None
    reference: str | None
    note: str | None
    created_at: datetime
    used_at: datetime | None
    expires_at: datetime | None
    priority: int | None
    grant_id: int | None
    balance_after: int


class LedgerPosition(NamedTuple):
    """Where a page begins: before this position, at which the balance was this."""

    position: int
    balance: int

    def encode(self) -> str:
        """The cursor that clients pass back."""
        return f"{self.position}_{self.balance}"

    @classmethod
    def decode(cls, cursor: str) -> "LedgerPosition":
        """Parse a client's cursor; raises `Invalid` naming `cursor`."""
        if (found := _CURSOR.fullmatch(cursor)) is None:
            raise Invalid.field("cursor", "is not a cursor of this list")
        return cls(int(found[1]), int(found[2]))
