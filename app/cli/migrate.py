"""`runtally migrate`: migrates a database to the newest schema."""

from rich.console import Console

from app.errors import Invalid
from app.platform.db import Database
from app.platform.settings import Settings


class NothingToMigrate(Invalid):
    """DATABASE_URL is not set; `runtally serve` migrates the embedded database itself."""


async def migrate(settings: Settings, console: Console) -> None:
    """Run every migration that is missing; raises `SchemaUnknown` if a newer release has contracted it."""
    if settings.database_url is None:
        raise NothingToMigrate
    database = await Database.open(settings.database_url)
    try:
        newer = await database.migrate()
    finally:
        await database.aclose()
    if newer is None:
        console.print("The database is up to date.")
    else:
        console.print(f"A newer release migrated the database to {newer}, which this one can use.")
