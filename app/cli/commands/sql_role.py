"""`runtally sql-role`: works on the database directly, also while a server uses it."""

from typing import Annotated

import typer

from app.cli.commands.database import stored
from app.cli.terminal import Terminal

_output, _notes = Terminal(highlight=False), Terminal(highlight=False, stderr=True)


async def sql_role(
    role: Annotated[str, typer.Argument(help="The name of the role; created if missing.")],
    *,
    account: Annotated[str | None, typer.Option(help="The account whose bills it reads.")] = None,
    all_accounts: Annotated[bool, typer.Option("--all-accounts", help="It reads those of all.")] = False,
) -> None:
    """Let a role of the database read the billing views, and print its URL with a new password once."""
    from app.billing.readers.service import SqlReaders

    if (account is None) != all_accounts:
        raise typer.BadParameter("needs one of --account and --all-accounts", param_hint="--account")
    async with stored() as (database, accounts, by):
        account_id = None if account is None else (await accounts.find_by_name(account)).id
        password = await SqlReaders(database).set_role(role, account_id, by=by)
        url = database.url_for(role, password)
    _output.print(url, soft_wrap=True)
    _notes.print("Keep the password: it is not shown again.", style="dim")
