"""SQL for the audit log."""

from sqlalchemy import ColumnElement, insert, null, select

from app.ids import new_uuid
from app.platform.audit.records import Actor, AuditEntry, AuditFilter, Change
from app.platform.audit.tables import audit_entries
from app.platform.db import Reader, Transaction, page_of
from app.platform.pagination import PageRequest

_entries = audit_entries.c


async def record_change(tx: Transaction, by: Actor, change: Change) -> None:
    """Append an entry, in the transaction of the change itself."""
    await tx.execute(
        insert(audit_entries).values(
            id=new_uuid(),
            via=by.via,
            actor_key_id=by.key_id,
            actor_account_id=by.account_id,
            address=by.address,
            request_id=by.request_id,
            account_id=change.account_id,
            action=change.action,
            target=change.target,
            before=null() if change.before is None else change.before,
            after=null() if change.after is None else change.after,
        )
    )


async def find_entries(reader: Reader, chosen: AuditFilter, page: PageRequest) -> list[AuditEntry]:
    wanted: list[ColumnElement[bool]] = []
    if chosen.account_id is not None:
        wanted.append(_entries.account_id == chosen.account_id)
    if chosen.action is not None:
        wanted.append(_entries.action == chosen.action)
    if chosen.since is not None:
        wanted.append(_entries.at >= chosen.since)
    if chosen.until is not None:
        wanted.append(_entries.at < chosen.until)
    statement = page_of(select(audit_entries).where(*wanted), page, at=_entries.at, id_=_entries.id)
    return [AuditEntry(**row) for row in (await reader.execute(statement)).mappings()]
