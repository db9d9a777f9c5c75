"""JSON of the audit log."""

from typing import Any
from uuid import UUID

from app.http.response_model import Moment, ResponseModel
from app.ids import AccountId
from app.platform.audit.records import AuditEntry, Via


class AuditResponse(ResponseModel):
    """What was done to an account; the actor is null if it is no key of the caller's account."""

    id: UUID
    at: Moment
    account: str
    action: str
    target: str
    via: Via
    actor_key_id: UUID | None
    actor_account_id: UUID | None
    address: str | None
    request_id: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None

    @classmethod
    def of(cls, entry: AuditEntry, account: str, *, visible_to: AccountId | None) -> "AuditResponse":
        """An entry as an account may see it, or all of it: operators are not shown to their customers."""
        shown = cls.built_from(entry, account=account)
        if visible_to is None or entry.actor_account_id == visible_to:
            return shown
        hidden = dict.fromkeys(("actor_key_id", "actor_account_id", "address", "request_id"))
        return shown.model_copy(update=hidden)
