"""The `runtally` command: what it takes and which file does it.

A command imports what it does when it does it: the whole of it takes a second and a half to import.
"""

import asyncio
import os
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from app.billing.payment_mode import PaymentMode
from app.cli.errors import EXIT_FAILED, EXIT_USAGE, explained, stderr
from app.cli.terminal import Terminal
from app.settings import Settings, withdraw_secrets

if TYPE_CHECKING:
    from app.cli.client import Client

app = typer.Typer(
    name="runtally",
    help="Runs agent graphs over HTTP and keeps the tally.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
keys = typer.Typer(help="API keys: create, list, revoke.", no_args_is_help=True)
app.add_typer(keys, name="keys")
credit = typer.Typer(help="Credit of accounts: show, grant, adjust, terms.", no_args_is_help=True)
app.add_typer(credit, name="credits")
console = Terminal(highlight=False)

Usd = Annotated[str, typer.Option(help="Dollars, for example 5.00.")]
Note = Annotated[str | None, typer.Option(help="Why; kept with the entry.")]
Port = Annotated[int, typer.Option(min=0, max=65_535, help="0 takes any free port.")]


@app.command()
def demo(
    *,
    once: Annotated[bool, typer.Option("--once", help="Exit after the first run.")] = False,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="Where to listen.")] = None,
) -> None:
    """Run everything here: embedded PostgreSQL, a scripted model, no key, no network."""
    from app.cli.demo import demo as run_demo
    from app.cli.logs import configure_logs

    configure_logs()
    with explained():
        asyncio.run(run_demo(Settings.load(), console, once=once, port=port))


@app.command()
def serve(
    *,
    host: Annotated[str, typer.Option(help="ChannelAddress to listen on.")] = "127.0.0.1",
    port: Port = 8000,
) -> None:
    """Serve HTTP. Migrates first when the database is embedded."""
    from app.cli.logs import configure_logs
    from app.cli.serve import serve as run_server

    configure_logs()
    with explained():
        settings = Settings.load()
        # Whatever the server starts inherits at most what is left.
        withdraw_secrets(os.environ)
        asyncio.run(run_server(settings, host=host, port=port))


@app.command()
def migrate() -> None:
    """Bring the database of DATABASE_URL to the newest schema."""
    from app.cli.migrate import migrate as run_migrate

    with explained():
        asyncio.run(run_migrate(Settings.load(), console))


@app.command()
def doctor(
    *,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    with_probe: Annotated[bool, typer.Option("--probe", help="Make one minimal model call.")] = False,
) -> None:
    """Check everything a server needs; exit 1 when something cannot be used."""
    from app.cli.doctor import diagnose
    from app.cli.doctor import show as show_report
    from app.cli.logs import configure_logs

    configure_logs()
    report = asyncio.run(diagnose(with_probe=with_probe))
    show_report(report, console, as_json=as_json)
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


@keys.command("create")
def keys_create(
    account: Annotated[str, typer.Option(help="Made when there is none of this name.")],
    scope: Annotated[list[str], typer.Option(help="Repeat for more than one.")],
    name: Annotated[str | None, typer.Option(help="What the key is for.")] = None,
) -> None:
    """Create an API key and print it, once."""
    from app.cli.keys import create_key

    with explained():
        asyncio.run(create_key(Settings.load(), console, account=account, scopes=scope, name=name))


@keys.command("list")
def keys_list() -> None:
    """List API keys; the keys themselves are not kept."""
    from app.cli.keys import list_keys

    with explained():
        asyncio.run(list_keys(Settings.load(), console))


@keys.command("revoke")
def keys_revoke(
    key_id: Annotated[UUID, typer.Argument(help="The id `keys list` shows.")],
    *,
    stop_runs: Annotated[
        bool, typer.Option("--stop-runs", help="Also cancel its runs that wait or are under way.")
    ] = False,
) -> None:
    """Revoke an API key: it stops working at once, its open streams end within a second."""
    from app.cli.keys import revoke_key

    with explained():
        asyncio.run(revoke_key(Settings.load(), console, key_id, stop_runs=stop_runs))


@credit.command("show")
def credits_show(account: str) -> None:
    """Print what an account was granted, has spent and has left, in dollars."""
    from app.cli.credits import show_credit

    with explained():
        asyncio.run(show_credit(Settings.load(), console, account))


@credit.command("grant")
def credits_grant(account: str, usd: Usd, note: Note = None) -> None:
    """Add credit to an account."""
    from app.cli.credits import change_credit

    with explained():
        asyncio.run(change_credit(Settings.load(), console, account, kind="grant", dollars=usd, note=note))


@credit.command("adjust")
def credits_adjust(account: str, usd: Usd, note: Annotated[str, typer.Option(help="Why.")]) -> None:
    """Correct an account by dollars of either sign."""
    from app.cli.credits import change_credit

    with explained():
        asyncio.run(change_credit(Settings.load(), console, account, kind="adjust", dollars=usd, note=note))


@credit.command("terms")
def credits_terms(
    account: str,
    mode: Annotated[PaymentMode | None, typer.Option(help="prepaid stops at zero.")] = None,
    monthly_budget_usd: Annotated[
        str | None, typer.Option(help="Dollars a calendar month (UTC), or none.")
    ] = None,
) -> None:
    """Change how an account pays; what is left out stays as it is."""
    from app.cli.credits import change_terms

    with explained():
        asyncio.run(change_terms(Settings.load(), console, account, mode=mode, budget=monthly_budget_usd))


@app.command("reprice")
def reprice() -> None:
    """Charge messages that had no price when they came, now that RUNTALLY_PRICES_FILE has one."""
    from app.cli.credits import reprice_receipts

    with explained():
        asyncio.run(reprice_receipts(Settings.load(), console))


@app.command("run")
def run_graph(graph: str, prompt: str) -> None:
    """Run a graph on the server at RUNTALLY_URL and print its events as they arrive."""
    from app.cli.client import show_run

    with explained():
        asyncio.run(show_run(_client(), console, graph, prompt))


@app.command()
def receipts(
    run: Annotated[str | None, typer.Option(help="Only this run's.")] = None,
) -> None:
    """Print receipts from the server at RUNTALLY_URL."""
    from app.cli.client import receipts_table

    with explained():
        console.print(receipts_table(asyncio.run(_client().receipts(run))))


def _client() -> "Client":
    from app.cli.client import Client

    api_key = os.environ.get("RUNTALLY_API_KEY")
    if not api_key:
        stderr.print("RUNTALLY_API_KEY is not set: it holds the API key to use.", style="red")
        raise typer.Exit(EXIT_USAGE)
    return Client(os.environ.get("RUNTALLY_URL") or "http://127.0.0.1:8000", api_key)
