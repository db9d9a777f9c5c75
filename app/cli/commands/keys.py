"""`runtally keys`: works on the database directly, also while a server uses it."""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from app.cli.commands.database import stored
from app.cli.errors import Commands
from app.cli.terminal import AsJson, Terminal, minutes, print_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.auth.records import KeyOptions, KeyRecord
    from app.requests.attribution import KeyLabels

keys = Commands(help="API keys: create, list, rotate, revoke.", no_args_is_help=True)
_output, _notes = Terminal(highlight=False), Terminal(highlight=False, stderr=True)


def _key_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise typer.BadParameter("must be an id as `keys list` prints it") from error


KeyId = Annotated[UUID, typer.Argument(parser=_key_id, help="The id shown by `keys list`.")]
Count = Annotated[int | None, typer.Option(min=1)]
_TIMES = ["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"]


@keys.command("create")
async def create(
    account: Annotated[str, typer.Option(help="Created if there is no account with this name.")],
    scope: Annotated[list[str], typer.Option(help="May be repeated.")],
    *,
    name: Annotated[str | None, typer.Option(help="A label for the key.")] = None,
    expires_at: Annotated[datetime | None, typer.Option(formats=_TIMES, help="In UTC.")] = None,
    graph: Annotated[list[str] | None, typer.Option(help="Which it may run; * for any characters.")] = None,
    model: Annotated[list[str] | None, typer.Option(help="Which it may use; * for any characters.")] = None,
    requests_per_minute: Count = None,
    concurrent_runs: Count = None,
    tokens_per_minute: Count = None,
    end_user: Annotated[
        str | None, typer.Option(help="Whom its runs are for, if they name no other.")
    ] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Of its runs: NAME:VALUE. May be repeated.")] = None,
    fixed_labels: Annotated[bool, typer.Option("--fixed-labels", help="Runs may name no others.")] = False,
    as_json: AsJson = False,
) -> None:
    """Create an API key and print it once."""
    options: KeyOptions = {
        "name": name,
        "expires_at": None if expires_at is None else expires_at.replace(tzinfo=expires_at.tzinfo or UTC),
        "graphs": graph or None,
        "models": model or None,
        "requests_per_minute": requests_per_minute,
        "concurrent_runs": concurrent_runs,
        "tokens_per_minute": tokens_per_minute,
        "labels": _labels(end_user, tag or (), fixed=fixed_labels),
    }
    _show_new(*await new_key(account, scope, options), as_json=as_json)


@keys.command("list")
async def list_all(*, as_json: AsJson = False) -> None:
    """List API keys, without their secrets."""
    async with stored() as (_, accounts, _):
        found = await accounts.list_keys()
    if as_json:
        _output.print_json(data=[_shown(key) for key in found])
    else:
        print_rows(_output, [_row(key) for key in found])


@keys.command("rotate")
async def rotate(
    key_id: KeyId,
    *,
    overlap_s: Annotated[int, typer.Option(min=0, help="For how long the old key stays valid.")] = 3600,
    as_json: AsJson = False,
) -> None:
    """Create a key with the rights of another one, which ends later, and print it once."""
    from app.ids import ApiKeyId
    from app.schedules.rotation import KeyRotation

    async with stored() as (database, accounts, by):
        rotation = KeyRotation(database, accounts)
        overlap = timedelta(seconds=overlap_s)
        made = await rotation.rotate(ApiKeyId(key_id), overlap, caller=None, by=by)
    _show_new(*made, as_json=as_json)


@keys.command("revoke")
async def revoke(
    key_id: KeyId,
    *,
    stop_runs: Annotated[
        bool, typer.Option("--stop-runs", help="Also cancel its waiting and active runs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Revoke an API key: it is refused at once, its open streams end within a second."""
    from app.ids import ApiKeyId
    from app.runs.revocation.service import KeyRevocation

    async with stored() as (database, accounts, by):
        revocation = KeyRevocation(database, accounts.revoke_key)
        stopped = await revocation.revoke(ApiKeyId(key_id), stop_runs=stop_runs, by=by)
    if as_json:
        _output.print_json(data={"id": str(key_id), "runsStopped": stopped})
        return
    _output.print(f"Key {key_id} is revoked.")
    if stop_runs:
        _output.print(f"Runs being cancelled: {stopped}.")


def _labels(end_user: str | None, tags: "Sequence[str]", *, fixed: bool) -> "KeyLabels | None":
    from pydantic import ValidationError

    from app.platform.serialization.mistakes import mistakes_in
    from app.requests.attribution import KeyLabels

    if end_user is None and not tags:
        if fixed:
            raise typer.BadParameter("needs --end-user or --tag", param_hint="--fixed-labels")
        return None
    pairs = (tag.partition(":") for tag in tags)
    given = {"endUser": end_user, "tags": {name: value for name, _, value in pairs}, "fixed": fixed}
    try:
        return KeyLabels.model_validate(given)
    except ValidationError as error:
        (mistake, *_) = mistakes_in(error.errors(include_input=False), given)
        option = "--tag" if mistake.path[:1] == ("tags",) else "--end-user"
        raise typer.BadParameter(mistake.problem, param_hint=option) from error


async def new_key(account: str, scopes: "Sequence[str]", options: "KeyOptions") -> "tuple[KeyRecord, str]":
    """Create a key; returns it and its secret. Raises what `Accounts.create_key` raises."""
    async with stored() as (_, accounts, by):
        return await accounts.create_key(account, scopes, by=by, **options)


def _show_new(key: "KeyRecord", secret: str, *, as_json: bool) -> None:
    if as_json:
        _output.print_json(data={**_shown(key), "key": secret})
        return
    _output.print(secret, soft_wrap=True)
    _notes.print(f"id {key.id}, account {key.account}. Keep the key: it is not shown again.", style="dim")


def _row(key: "KeyRecord") -> dict[str, str]:
    times = {
        "created": key.created_at,
        "last used": key.last_used_at,
        "ends": key.terms.expires_at,
        "revoked": key.revoked_at,
    }
    return {
        "id": str(key.id),
        "account": key.account,
        "name": key.name or "",
        "key": f"{key.prefix}…",
        "scopes": " ".join(key.scopes),
        **{title: minutes(moment) for title, moment in times.items()},
    }


def _shown(key: "KeyRecord") -> dict[str, Any]:
    """As the API shows keys."""
    from app.http.api.keys.schemas import ManagedKey

    return ManagedKey.of(key).model_dump(mode="json", by_alias=True)
