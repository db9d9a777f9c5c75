"""`runtally accounts`: works on the database directly, also while a server uses it."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.commands.database import stored
from app.cli.errors import Commands
from app.cli.terminal import AsJson, Terminal, print_rows
from app.platform.settings import Settings

if TYPE_CHECKING:
    from app.auth.records import AccountRecord

accounts = Commands(help="Accounts: create, list, rename, suspend, resume, retention.", no_args_is_help=True)
_output = Terminal(highlight=False)

Days = Annotated[str | None, typer.Option(metavar="DAYS", help="A number, or `default`.")]
_MAX_DAYS = 36_500


@accounts.command("create")
async def create(name: str, *, as_json: AsJson = False) -> None:
    """Create an account."""
    async with stored() as (_, known, by):
        _show([await known.create_account(name, by=by)], as_json=as_json)


@accounts.command("list")
async def list_all(*, as_json: AsJson = False) -> None:
    """List all accounts, newest first."""
    from app.platform.pagination import MAX_PAGE, PageRequest

    async with stored() as (_, known, _):
        found, cursor = await known.list_accounts(PageRequest(MAX_PAGE))
        while cursor is not None:
            page, cursor = await known.list_accounts(PageRequest.of_uuids(MAX_PAGE, cursor))
            found += page
    _show(found, as_json=as_json)


@accounts.command("rename")
async def rename(name: str, new_name: str, *, as_json: AsJson = False) -> None:
    """Give an account another name; its keys stay valid."""
    _show([await _change(name, new_name=new_name)], as_json=as_json)


@accounts.command("suspend")
async def suspend(
    name: str,
    *,
    stop_runs: Annotated[bool, typer.Option("--stop-runs", help="Also cancel all its runs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Refuse all keys of an account; its open streams end within a second."""
    _show([await _change(name, suspended=True, stop_runs=stop_runs)], as_json=as_json)


@accounts.command("resume")
async def resume(name: str, *, as_json: AsJson = False) -> None:
    """Accept the keys of a suspended account again."""
    _show([await _change(name, suspended=False)], as_json=as_json)


@accounts.command("retention")
async def retention(
    name: str,
    *,
    contents: Days = None,
    events: Days = None,
    transcripts: Days = None,
    workspaces: Days = None,
    evidence: Days = None,
    as_json: AsJson = False,
) -> None:
    """Keep what an account stores for fewer days than by default; without options, show for how many."""
    from app.auth.account_retention import AccountRetention
    from app.bootstrap.storage import default_retention

    given = {
        "contents": contents,
        "events": events,
        "transcripts": transcripts,
        "workspaces": workspaces,
        "evidence": evidence,
    }
    changed = {f"{kind}_days": _days(kind, days) for kind, days in given.items() if days is not None}
    settings = Settings.load()
    async with stored(settings) as (database, known, by):
        found = await known.find_by_name(name)
        retained = AccountRetention(database, default_retention(settings))
        account = await retained.change(found.id, changed, by=by)
    if as_json:
        _show([account], as_json=True)
        return
    kept = account.retention.days
    print_rows(_output, [{"kept": kind, "days": str(kept.get(f"{kind}_days", "default"))} for kind in given])


def _days(kind: str, text: str) -> int | None:
    if text == "default":
        return None
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= _MAX_DAYS:
        message = f"must be a number of days from 1 to {_MAX_DAYS}, or `default`"
        raise typer.BadParameter(message, param_hint=f"--{kind}")
    return int(text)


async def _change(
    name: str, *, new_name: str | None = None, suspended: bool | None = None, stop_runs: bool = False
) -> "AccountRecord":
    from app.runs.revocation.service import KeyRevocation

    async with stored() as (database, known, by):
        found = await known.find_by_name(name)
        changed = await known.change_account(found.id, name=new_name, suspended=suspended, by=by)
        if stop_runs:
            await KeyRevocation(database, known.revoke_key).stop_runs(account_id=found.id)
        return changed


def _show(found: "list[AccountRecord]", *, as_json: bool) -> None:
    if as_json:
        _output.print_json(data=[_shown(account) for account in found])
        return
    states = ["active" if account.suspended_at is None else "suspended" for account in found]
    rows = [
        {"id": str(account.id), "name": account.name, "state": state}
        for account, state in zip(found, states, strict=True)
    ]
    print_rows(_output, rows)


def _shown(account: "AccountRecord") -> dict[str, Any]:
    """As the API shows accounts."""
    from app.http.api.accounts.schemas import AccountResponse

    return AccountResponse.model_validate(account).model_dump(mode="json", by_alias=True)
