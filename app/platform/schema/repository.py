"""The table of the database's revision."""

import re
from functools import cache
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.engine import Connection

from app.platform.schema.compatibility import newer_revision

# In the repository they are beside the package, in an installed package inside it.
_MIGRATIONS = next(p / "migrations" for p in Path(__file__).parents if (p / "migrations").is_dir())

_EXISTS = text("SELECT to_regclass('alembic_version') IS NOT NULL")
_CURRENT = text("SELECT version_num FROM alembic_version")
_REQUIRED = text(
    # As JSON: without a column `required_revision`, which releases before 0061 did not add, it is NULL.
    "SELECT to_jsonb(alembic_version) ->> 'required_revision' FROM alembic_version"
)
_REVISION = re.compile(r'^revision: str = "(\w+)"$', re.MULTILINE)


def upgrade(connection: Connection) -> str | None:
    """Run every missing migration, within the caller's transaction.

    A newer schema stays as it is: returns its revision if this release can use it, otherwise raises
    `SchemaUnknown`.
    """
    # Serializes servers that start at the same time.
    connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('runtally.migrate'))"))
    if (current := _current(connection)) == head():
        return None
    from app.platform.schema import migrations

    if current is not None and current not in migrations.revisions(_MIGRATIONS):
        return usable_revision(connection)
    migrations.upgrade_to_head(connection, _MIGRATIONS)
    return None


def usable_revision(connection: Connection) -> str | None:
    """The revision of a newer schema that this release can use; None if the schema is its own.

    Raises `SchemaOutdated` or `SchemaUnknown`.
    """
    if (current := _current(connection)) == head():
        return None
    from app.platform.schema import migrations

    return newer_revision(
        current,
        known=migrations.revisions(_MIGRATIONS),
        required=None if current is None else connection.execute(_REQUIRED).scalar(),
    )


@cache
def head() -> str:
    """The newest revision of this release: that of the last file, because their names begin with the time."""
    last = max((_MIGRATIONS / "versions").glob("*.py"))
    (found,) = _REVISION.findall(last.read_text("utf-8"))
    return str(found)


def _current(connection: Connection) -> str | None:
    if not connection.execute(_EXISTS).scalar_one():
        return None
    found: str | None = connection.execute(_CURRENT).scalar()
    return found
