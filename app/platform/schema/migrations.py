"""Alembic's migrations: few processes have one to run, and importing Alembic takes 0.1 s."""

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection


def upgrade_to_head(connection: Connection, migrations: Path) -> None:
    """Run every missing migration, within the caller's transaction."""
    config = _config(migrations)
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


@cache
def revisions(migrations: Path) -> frozenset[str]:
    """All revisions of this release. To find them, each file of a migration is executed."""
    scripts = ScriptDirectory.from_config(_config(migrations))
    return frozenset(script.revision for script in scripts.walk_revisions())


def _config(migrations: Path) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations))
    return config
