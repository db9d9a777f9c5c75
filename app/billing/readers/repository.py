"""SQL for roles of the database that read the billing views.

Statements about roles take no parameters: names of roles and verifiers must have no character to be quoted.
"""

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert

from app.billing.readers.tables import billing_readers
from app.ids import AccountId
from app.platform.db import Transaction

VIEWS = ("billing_accounts", "billing_receipts", "billing_usage_daily", "billing_ledger")

_STATEMENT_S = 60


async def role_exists(tx: Transaction, role: str) -> bool:
    found = await tx.execute(text("SELECT 1 FROM pg_roles WHERE rolname = :role"), {"role": role})
    return found.first() is not None


async def is_reader(tx: Transaction, role: str) -> bool:
    found = await tx.execute(select(billing_readers.c.role).where(billing_readers.c.role == role))
    return found.first() is not None


async def create_role(tx: Transaction, role: str) -> None:
    await tx.exec_driver_sql(f"CREATE ROLE {role} LOGIN NOINHERIT")


async def grant_views(tx: Transaction, role: str, verifier: str) -> None:
    """Set the password of a role by its verifier, and let it read the views."""
    for statement in (
        f"ALTER ROLE {role} PASSWORD '{verifier}'",
        f"ALTER ROLE {role} SET default_transaction_read_only = on",
        f"ALTER ROLE {role} SET statement_timeout = '{_STATEMENT_S}s'",
        f"DO $$ BEGIN EXECUTE format('GRANT USAGE ON SCHEMA %I TO {role}', current_schema()); END $$",
        f"GRANT SELECT ON {', '.join(VIEWS)} TO {role}",
    ):
        await tx.exec_driver_sql(statement)


async def set_account(tx: Transaction, role: str, account_id: AccountId | None) -> None:
    values = {"account_id": account_id}
    entry = insert(billing_readers).values(role=role, **values)
    await tx.execute(entry.on_conflict_do_update(index_elements=["role"], set_=values))
