"""The database, for commands that work on it directly, also while a server uses it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from app.platform.settings import Settings

if TYPE_CHECKING:
    from app.auth.accounts import Accounts
    from app.ids import AccountId
    from app.platform.audit.records import Actor
    from app.platform.db import Database


class Stored(NamedTuple):
    """The database, its accounts, and by whom a command changes them."""

    database: "Database"
    accounts: "Accounts"
    by: "Actor"


@asynccontextmanager
async def stored(settings: Settings | None = None) -> AsyncIterator[Stored]:
    """With these settings, or the environment's; raises `DatabaseNotUsable`."""
    from app.auth.accounts import Accounts
    from app.bootstrap.storage import attach_database
    from app.platform.audit.service import command_actor

    async with attach_database(settings or Settings.load()) as database:
        yield Stored(database, Accounts(database), command_actor())


@asynccontextmanager
async def stored_account(
    name: str, settings: Settings | None = None
) -> "AsyncIterator[tuple[Database, AccountId]]":
    """The database and an account; raises what `Accounts.find_by_name` raises."""
    async with stored(settings) as (database, accounts, _):
        yield database, (await accounts.find_by_name(name)).id
