"""Alembic's migrations, and its table of the database's revision."""

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text
from sqlalchemy.engine import Connection

from app.platform.schema.compatibility import newer_revision

# In the repository they are beside the package, in an installed package inside it.
_MIGRATIONS = next(p / "migrations" for p in Path(__file__).parents if (p / "migrations").is_dir())

_REQUIRED = text(
    # As JSON: without a column `required_revision`, which releases before 0061 did not add, it is NULL.
    "SELECT to_jsonb(alembic_version) ->> 'required_revision' FROM alembic_version"
)


def upgrade(connection: Connection) -> str | None:
    """Run every missing migration, within the caller's transaction.

    A newer schema stays as it is: returns its revision if this release can use it, otherwise raises
    `SchemaUnknown`.
    """
    # Serializes servers that start at the same time.
    connection.execute(text("SELECT pg_advisory_xact_lock(hashtext('runtally.migrate'))"))
    current, (head, known) = _current(connection), _revisions()
    if current is not None and current not in known:
        return usable_revision(connection)
    if current != head:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return None


def usable_revision(connection: Connection) -> str | None:
    """The revision of a newer schema that this release can use; None if the schema is its own.

    Raises `SchemaOutdated` or `SchemaUnknown`.
    """
    current, (head, known) = _current(connection), _revisions()
    return newer_revision(
        current,
        head=head,
        known=known,
        required=None if current is None else connection.execute(_REQUIRED).scalar(),
    )


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS))
    return config


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


@cache
def _revisions() -> tuple[str | None, frozenset[str]]:
    """The head and all revisions of this release. To find them, each file of a migration is executed."""
    scripts = ScriptDirectory.from_config(_config())
    return scripts.get_current_head(), frozenset(script.revision for script in scripts.walk_revisions())
