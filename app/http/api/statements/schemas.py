"""JSON of statements: credits, signed as in the ledger, and dollars as decimal strings."""

import base64
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from app.billing.credit.ledger import usd
from app.billing.statements.records import Statement, StoredStatement, content_of
from app.http.response_model import Moment, Money, ResponseModel


class StatementSummary(ResponseModel):
    """The statement of a month, in short."""

    month: str
    opening_usd: Money
    closing_usd: Money
    made_at: Moment

    @classmethod
    def of(cls, stored: StoredStatement) -> "StatementSummary":
        return cls.built_from(stored, **_balances(content_of(stored)))


class StatementPartResponse(ResponseModel):
    """The charges of one model, graph or key."""

    name: Annotated[str, Field(description="Of a key: its id.")]
    messages: int
    credits: int


class LateChargesResponse(ResponseModel):
    """What was charged for messages of a month after its statement had been made."""

    month: str
    credits: int


class StatementResponse(StatementSummary):
    """An account's credit in a month (UTC): `opening` and all amounts below it add up to `closing`."""

    account_id: str
    opening: int
    grants: int
    adjustments: int
    expiries: int
    charges: int
    late_charges: Sequence[LateChargesResponse]
    closing: int
    by_model: Sequence[StatementPartResponse]
    by_graph: Sequence[StatementPartResponse]
    by_key: Sequence[StatementPartResponse]
    content: Annotated[str, Field(description="The text that is signed; its fields are those above.")]
    key: Annotated[
        str | None, Field(description="The id of the key in `GET /v1/chain/keys`; null: unsigned.")
    ]
    signature: Annotated[str | None, Field(description="Ed25519, in base64.")]

    @classmethod
    def of(cls, stored: StoredStatement) -> "StatementResponse":
        content = content_of(stored)
        signature = None if stored.signature is None else base64.b64encode(stored.signature).decode()
        return cls.built_from(content, stored, signature=signature, **_balances(content))


def _balances(content: Statement) -> dict[str, object]:
    return {"opening_usd": usd(content.opening), "closing_usd": usd(content.closing)}
