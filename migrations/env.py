"""Alembic environment: uses the connection it is given, and records which releases can use the schema."""

from alembic import context
from sqlalchemy import text
from sqlalchemy.engine import Connection

import app.auth.device_logins.tables
import app.auth.tables
import app.billing.budgets.tables
import app.billing.credit.tables
import app.billing.receipts.open_messages.tables
import app.billing.receipts.tables
import app.billing.reports.tables
import app.platform.audit.tables
import app.runs.conversations.sharing.tables
import app.runs.tables
import app.tools.mcp.oauth.tables
import app.webhooks.tables  # noqa: F401 - each import adds its tables to the metadata
from app.platform.db import metadata


def migrate(connection: Connection) -> None:
    """Run within the caller's transaction."""
    context.configure(connection=connection, target_metadata=metadata, compare_server_default=True)
    with context.begin_transaction():
        context.run_migrations()
        if (revision := context.get_context().get_current_revision()) is not None:
            record_required_revision(connection, revision)


def record_required_revision(connection: Connection, revision: str) -> None:
    """Record the newest revision that earlier releases cannot work with: see docs/decisions/0061.

    A release that knows it, because it has that migration, can use the schema.
    """
    column = text("ALTER TABLE alembic_version ADD COLUMN IF NOT EXISTS required_revision VARCHAR(32)")
    connection.execute(column)
    value = text("UPDATE alembic_version SET required_revision = :required")
    connection.execute(value, {"required": required_revision(revision)})


def required_revision(revision: str) -> str:
    """The newest up to this one that is no expansion; those before 0061 do not declare what they are."""
    for script in context.script.walk_revisions("base", revision):
        if getattr(script.module, "compatibility", "contract") != "expand":
            return script.revision
    message = "the first migration must be a contraction"
    raise ValueError(message)


migrate(context.config.attributes["connection"])
