"""Alembic environment: uses the connection it is given."""

from alembic import context
from sqlalchemy.engine import Connection

import app.auth.tables
import app.billing.credit.tables
import app.billing.receipts.open_messages.tables
import app.billing.receipts.tables
import app.billing.reports.tables
import app.runs.tables
import app.webhooks.tables  # noqa: F401 - each import adds its tables to the metadata
from app.db import metadata


def migrate(connection: Connection) -> None:
    """Run within the caller's transaction."""
    context.configure(connection=connection, target_metadata=metadata, compare_server_default=True)
    with context.begin_transaction():
        context.run_migrations()


migrate(context.config.attributes["connection"])
