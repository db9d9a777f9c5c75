"""`runtally migrate`: migrates a database to the newest schema."""

from rich.console import Console

from app.bootstrap.storage import operators_database
from app.cli.terminal import working
from app.platform.settings import Settings


async def migrate(settings: Settings, console: Console) -> None:
    """Run every migration that is missing; raises `SchemaUnknown` if a newer release has contracted it."""
    with working("Migrating the database…"):
        async with operators_database(settings) as database:
            newer = await database.migrate()
    if newer is None:
        console.print("The database is up to date.")
    else:
        console.print(f"A newer release migrated the database to {newer}, which this one can use.")
