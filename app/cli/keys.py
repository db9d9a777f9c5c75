"""`runtally keys`: works on the database directly, also while a server uses it."""

from collections.abc import Sequence
from uuid import UUID

from rich.console import Console
from rich.table import Table

from app.auth.accounts import Accounts
from app.bootstrap.storage import attach_database
from app.ids import ApiKeyId
from app.platform.settings import Settings
from app.runs.revocation.service import KeyRevocation


async def create_key(
    settings: Settings,
    console: Console,
    *,
    account: str,
    scopes: Sequence[str],
    name: str | None,
) -> None:
    """Create a key and print it; it cannot be printed again."""
    async with attach_database(settings) as database:
        record, secret = await Accounts(database).create_key(account, scopes, name=name)
    console.print(secret, soft_wrap=True)
    console.print(f"id {record.id}, account {account}. Keep the key: it is not shown again.", style="dim")


async def list_keys(settings: Settings, console: Console) -> None:
    """Print the account, scopes and times of every key."""
    async with attach_database(settings) as database:
        records = await Accounts(database).list_keys()
    table = Table()
    for title in ("id", "account", "name", "key", "scopes", "created", "last used", "revoked"):
        table.add_column(title, overflow="fold")
    for record in records:
        times = (record.created_at, record.last_used_at, record.revoked_at)
        table.add_row(
            str(record.id),
            record.account,
            record.name or "",
            f"{record.prefix}…",
            " ".join(record.scopes),
            *(moment.isoformat(timespec="seconds") if moment else "" for moment in times),
        )
    console.print(table)


async def revoke_key(settings: Settings, console: Console, key_id: UUID, *, stop_runs: bool) -> None:
    """Revoke a key; with `stop_runs`, servers cancel its runs."""
    async with attach_database(settings) as database:
        revocation = KeyRevocation(database, Accounts(database).revoke_key)
        stopped = await revocation.revoke(ApiKeyId(key_id), stop_runs=stop_runs)
    console.print(f"Key {key_id} is revoked.")
    if stop_runs:
        console.print(f"Runs being cancelled: {stopped}.")
