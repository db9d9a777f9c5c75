"""JSON of the ledger: credits as integers, dollars as decimal strings."""

from typing import Annotated, Literal
from uuid import UUID

from pydantic import Field

from app.billing.credit.ledger import usd
from app.billing.ledger.records import ListedEntry
from app.http.response_model import Moment, Money, ResponseModel


class LedgerEntryResponse(ResponseModel):
    """A change of an account's credit; none is ever changed or deleted."""

    id: int
    kind: Annotated[
        Literal["grant", "adjustment", "expiry", "debit", "reservation", "release"],
        Field(
            description="`expiry`: what was left of a grant, perhaps nothing. "
            "`reservation` and `release`: credit that a run holds meanwhile."
        ),
    ]
    credits: Annotated[int, Field(description="What it adds; a reservation changes no balance.")]
    amount_usd: Money
    balance_after: int
    balance_after_usd: Money
    note: str | None
    reference: Annotated[str | None, Field(description="The `Idempotency-Key` of the request.")]
    run_id: str | None
    receipt_id: UUID | None
    created_at: Moment
    expires_at: Annotated[Moment | None, Field(description="Of a grant: when what is left of it expires.")]
    priority: Annotated[int | None, Field(description="Of a grant: a lower one is spent first; null: 0.")]
    grant_id: Annotated[int | None, Field(description="Of an expiry: the `id` of the grant.")]
    used_at: Annotated[Moment | None, Field(description="Of a debit: when the message began.")]

    @classmethod
    def of(cls, entry: ListedEntry) -> "LedgerEntryResponse":
        dollars = {"amount_usd": usd(entry.credits), "balance_after_usd": usd(entry.balance_after)}
        return cls.built_from(entry, **dollars)
