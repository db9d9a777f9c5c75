"""`runtally sql-role`: works on the database directly, also while a server uses it."""

from typing import Annotated

import typer

from app.cli.terminal import Terminal
from app.platform.settings import Settings

_output, _notes = Terminal(highlight=False), Terminal(highlight=False, stderr=True)


async def sql_role(
    role: Annotated[str, typer.Argument(help="The name of the role; created if missing.")],
    *,
    account: Annotated[str | None, typer.Option(help="The account whose bills it reads.")] = None,
    all_accounts: Annotated[bool, typer.Option("--all-accounts", help="It reads those of all.")] = False,
) -> None:
    """Let a role of the database read the billing views, and print its URL with a new password once."""
    from app.auth.accounts import Accounts
    from app.billing.readers.service import SqlReaders
    from app.bootstrap.storage import attach_database
    from app.platform.audit.service import command_actor

    if (account is None) != all_accounts:
        raise typer.BadParameter("needs one of --account and --all-accounts", param_hint="--account")
    async with attach_database(Settings.load()) as database:
        account_id = None if account is None else (await Accounts(database).find_by_name(account)).id
        password = await SqlReaders(database).set_role(role, account_id, by=command_actor())
        url = database.url_for(role, password)
    _output.print(url, soft_wrap=True)
    _notes.print("Keep the password: it is not shown again.", style="dim")
