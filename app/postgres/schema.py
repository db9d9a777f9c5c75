"""The schema of the database: its migrations, and whether server and schema can be used by this version."""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.engine import Connection, Row

from app.errors import OperatorError, Unavailable
from app.postgres.errors import target_of

# In the repository they are beside the package, in an installed package inside it.
_MIGRATIONS = next(p / "migrations" for p in Path(__file__).parents if (p / "migrations").is_dir())
_LEAST_VERSION = 140_000
SERVER = text(
    "SELECT current_setting('server_version_num')::int AS version, pg_is_in_recovery() AS is_standby, "
    "current_setting('default_transaction_read_only')::bool AS is_read_only"
)
MAY_WRITE = text("SELECT has_table_privilege('runs', 'SELECT') AND has_table_privilege('runs', 'INSERT')")

OUTDATED = "its schema is older than this version requires; run `runtally migrate`"
UNKNOWN = "a newer version of Runtally has migrated it; start that version, or restore a backup"


class SchemaOutdated(Unavailable):
    """The database schema is older than this version requires; run `runtally migrate`."""

    code = "schema_outdated"


class SchemaUnknown(Unavailable):
    """The database schema is unknown to this version; a newer Runtally has migrated it."""

    code = "schema_unknown"


class DatabaseNotUsable(OperatorError):
    """The database of DATABASE_URL cannot be used; the text names it, the reason and the next step."""

    def __init__(self, url: str, problem: str) -> None:
        self.target = target_of(url)
        super().__init__(f"DATABASE_URL ({self.target}): {problem}.")


def _alembic_config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    return config


def upgrade(connection: Connection) -> None:
    """Run every missing migration."""
    config = _alembic_config()
    config.attributes["connection"] = connection
    # Serializes servers that start at the same time.
    connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('runtally.migrate'))"))
    command.upgrade(config, "head")


def require_current(connection: Connection) -> None:
    """Raise `SchemaOutdated` or `SchemaUnknown` unless the schema is that of this version."""
    scripts = ScriptDirectory.from_config(_alembic_config())
    current = MigrationContext.configure(connection).get_current_revision()
    if current == scripts.get_current_head():
        return
    known = {script.revision for script in scripts.walk_revisions()}
    if current is None or current in known:
        raise SchemaOutdated
    raise SchemaUnknown


def require_usable_server(url: str, row: Row[Any]) -> None:
    """Raise `DatabaseNotUsable` if the server is too old or read-only; `row` is what `SERVER` returns."""
    problem = None
    if row.version < _LEAST_VERSION:
        problem = (
            f"the server is PostgreSQL {row.version // 10_000}, which is too old; use version "
            f"{_LEAST_VERSION // 10_000} or later"
        )
    elif row.is_standby or row.is_read_only:
        problem = "the database is read-only, such as a standby; connect to the primary server"
    if problem is not None:
        raise DatabaseNotUsable(url, problem)
