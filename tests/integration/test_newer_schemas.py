"""This release on the schema of a later one: after an expansion it works, otherwise it is refused."""

from collections.abc import Sequence
from io import StringIO
from pathlib import Path

import pytest
from alembic import command
from alembic.config import Config
from rich.console import Console
from sqlalchemy import text
from sqlalchemy.engine import Connection
from structlog.testing import capture_logs

from app.billing.chain.verification import verify
from app.cli.migrate import migrate
from app.platform.db import Database
from app.platform.postgres.usability import DatabaseNotUsable
from app.platform.schema.compatibility import SchemaUnknown
from app.simulator.script import Reply, Text, in_turn
from tests.e2e.agents import MESSAGES
from tests.e2e.stories import a_request, a_world, the_settings
from tests.integration.statements import execute

ROOT = Path(__file__).parents[2]
MIGRATION = '''
from alembic import op

revision, down_revision = "{revision}", "{previous}"
{compatibility}

def upgrade():
    for statement in """{sql}""".split(";"):
        op.execute(statement)
'''
COLUMNS = """
    ALTER TABLE runs ADD COLUMN region text;
    ALTER TABLE charge_receipts ADD COLUMN invoice_id uuid;
    ALTER TABLE accounts ADD COLUMN tier text NOT NULL DEFAULT 'usual'
"""
TABLES = "CREATE TABLE invoices (id uuid PRIMARY KEY); CREATE INDEX ix_runs_region ON runs (region)"
DROPPED = "ALTER TABLE runs DROP COLUMN request_hash"
EXPANSIONS = [("expand", COLUMNS), ("expand", TABLES)]


async def upgrade_further(database: Database, directory: Path, migrations: Sequence[tuple[str, str]]) -> str:
    """Migrate with those of a later release, each with what it declares; returns the newest revision."""

    def upgrade(connection: Connection) -> str:
        directory.mkdir()
        newest: str = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
        for number, (declared, sql) in enumerate(migrations):
            previous, newest = newest, f"later{number}"
            line = f'compatibility = "{declared}"' if declared else ""
            source = MIGRATION.format(revision=newest, previous=previous, compatibility=line, sql=sql)
            (directory / f"{newest}.py").write_text(source)
        config = Config()
        config.set_main_option("script_location", str(ROOT / "migrations"))
        config.set_main_option("path_separator", "newline")
        config.set_main_option("version_locations", f"{ROOT / 'migrations' / 'versions'}\n{directory}")
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
        return newest

    async with database.transaction() as tx:
        return await tx.run_sync(upgrade)


async def test_it_works_with_an_expanded_schema(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    newest = await upgrade_further(database, tmp_path / "later", EXPANSIONS)
    printed = StringIO()

    with capture_logs() as logged:
        async with a_world(
            tmp_path, database_url, in_turn(Reply([Text("Good morning.")])), agent=MESSAGES
        ) as world:
            answer = (await world.http.post("/v1/runs/wait", json=a_request(runId="run-1"))).json()
            (receipt,) = await world.receipts("run-1")
    await migrate(the_settings(tmp_path, database_url, "http://127.0.0.1"), Console(file=printed, width=200))

    assert [entry["revision"] for entry in logged if entry["event"] == "schema.newer"] == [newest]
    assert (answer["ok"], receipt["basis"]) == (True, "final")
    assert (await verify(database, {})).findings == ()
    assert (
        printed.getvalue() == f"A newer release migrated the database to {newest}, which this one can use.\n"
    )


@pytest.mark.parametrize(
    "migrations",
    [
        [("contract", DROPPED)],
        [("", DROPPED)],
        [("expands", DROPPED)],
        [*EXPANSIONS, ("contract", DROPPED)],
        [("contract", DROPPED), *EXPANSIONS],
    ],
    ids=["contracted", "undeclared", "misspelled", "later", "earlier"],
)
async def test_it_refuses_a_contracted_schema(
    database: Database, tmp_path: Path, migrations: list[tuple[str, str]]
) -> None:
    await upgrade_further(database, tmp_path / "later", migrations)

    with pytest.raises(SchemaUnknown, match="run the newer one"):
        await database.require_usable_schema()
    with pytest.raises(DatabaseNotUsable, match="start the newer one"):
        await database.migrate()


async def test_a_schema_of_before_this_was_recorded_is_unknown(database: Database) -> None:
    await execute(database, "ALTER TABLE alembic_version DROP COLUMN required_revision")
    assert await database.require_usable_schema() is None
    await execute(database, "UPDATE alembic_version SET version_num = 'later'")

    with pytest.raises(SchemaUnknown):
        await database.require_usable_schema()
