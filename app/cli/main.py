"""The command line: options of each command, and the module that implements it.

Modules are imported inside the commands: importing everything takes 1.5 seconds.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from app import __version__
from app.bootstrap.roles import Role
from app.cli.commands.accounts import accounts
from app.cli.commands.approvals import approvals
from app.cli.commands.batches import batches
from app.cli.commands.bills import ledger, statements
from app.cli.commands.connect import connect
from app.cli.commands.credits import credit, reprice
from app.cli.commands.exports import exports
from app.cli.commands.graphs import graphs
from app.cli.commands.keys import keys
from app.cli.commands.mcp import mcp
from app.cli.commands.serving import api, serve, worker
from app.cli.commands.sql_role import sql_role
from app.cli.errors import EXIT_FAILED, Commands
from app.cli.terminal import AsJson, Terminal, working
from app.platform.server.imports import quick_imports
from app.platform.settings import Settings

app = Commands(
    name="runtally",
    help="Runs agent graphs over HTTP and bills each message.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(accounts, name="accounts")
app.add_typer(keys, name="keys")
app.add_typer(credit, name="credits")
chain = Commands(help="Hash chains of receipts and ledger: keys, roots, exports.", no_args_is_help=True)
app.add_typer(chain, name="chain")
app.add_typer(exports, name="export")
app.add_typer(graphs, name="graphs")
app.add_typer(mcp, name="mcp")
app.add_typer(batches, name="batches")
app.add_typer(approvals, name="approvals")
console = Terminal(highlight=False)


def _show_version(is_requested: bool) -> None:  # noqa: FBT001 - typer calls it so
    if is_requested:
        console.print(f"runtally {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    _version: Annotated[
        bool,
        typer.Option("--version", help="Show the release and exit.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """Options of the program itself."""


@app.command()
async def demo(
    *,
    once: Annotated[bool, typer.Option("--once", help="Exit after the first run.")] = False,
    port: Annotated[int | None, typer.Option(min=0, max=65_535, help="Port to listen on.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write what is shown as a picture.")] = None,
    graph: Annotated[str | None, typer.Argument(help="Show one run of this graph only.")] = None,
    prompt: Annotated[str, typer.Argument(help="Its prompt.")] = "What time is it in Tokyo?",
) -> None:
    """Run everything on this machine: embedded PostgreSQL, a scripted model, no key, no network.

    Graphs and tools are those of `.env`, as for `serve`.
    """
    with quick_imports():
        from app.cli.demo.tour import DemoOptions
        from app.cli.demo.tour import demo as run_demo

    screen = console if svg is None else Terminal(highlight=False, record=True, width=110)
    shown = DemoOptions(once=once, port=port, picture=svg, graph=graph, prompt=prompt)
    await run_demo(Settings.load(), screen, shown)


@app.command()
def init(directory: Annotated[Path, typer.Argument(help="Created if missing.")] = Path()) -> None:
    """Lay out a project: a graph, a tool with its test, settings, a Dockerfile."""
    from app.cli.project.init import init as lay_out

    lay_out(console, directory)


for _command in (serve, api, worker, sql_role, connect, ledger, statements, reprice):
    app.command()(_command)


@app.command()
async def migrate() -> None:
    """Migrate the database of DATABASE_URL to the newest schema."""
    from app.cli.migrate import migrate as run_migrate

    await run_migrate(Settings.load(), console)


@app.command()
async def doctor(
    *,
    as_json: AsJson = False,
    with_probe: Annotated[bool, typer.Option("--probe", help="Make one minimal model call.")] = False,
    role: Annotated[Role, typer.Option(help="Of which process.")] = Role.SERVE,
) -> None:
    """Check everything a process needs; exits with 1 if something cannot be used."""
    if with_probe and not role.executes_runs:
        message = "a process of this role makes no model calls"
        raise typer.BadParameter(message, param_hint="--probe")
    with quick_imports():
        from app.cli.doctor import diagnose
        from app.cli.doctor import show as show_report

    with working("Checking…"):
        report = await diagnose(role, with_probe=with_probe)
    show_report(report, console, as_json=as_json)
    if not report.ok:
        raise typer.Exit(EXIT_FAILED)


@app.command()
async def reconcile(
    *,
    since: Annotated[
        str | None, typer.Option("--from", help="The first day (UTC); the last 24 complete hours by default.")
    ] = None,
    until: Annotated[str | None, typer.Option("--to", help="The last day (UTC).")] = None,
    month: Annotated[str | None, typer.Option(help="A whole month, for example 2026-11.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare receipts with the provider's reports; exits with 1 if a difference is unexplained."""
    from app.cli.reconcile import Span
    from app.cli.reconcile import reconcile as run_reconcile

    span = Span(since, until, month)
    if not await run_reconcile(Settings.load(), console, span, as_json=as_json):
        raise typer.Exit(EXIT_FAILED)


@chain.command("keygen")
def chain_keygen(
    path: Annotated[Path, typer.Argument(help="The file to write, for RUNTALLY_SEALING_KEY_FILE.")],
    *,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Replace the key in the file; its public key stays in it.")
    ] = False,
) -> None:
    """Make the private key that signs roots, and print the public keys."""
    from app.cli.chain import make_key

    make_key(console, path, rotate=rotate)


@chain.command("public-keys")
def chain_public_keys() -> None:
    """Print the public keys of all roots, for those who verify exports."""
    from app.cli.chain import show_public_keys

    show_public_keys(Settings.load(), console)


@chain.command("seal")
async def chain_seal(*, as_json: AsJson = False) -> None:
    """Sign a root of all chains now, and print its hash."""
    from app.cli.chain import seal

    await seal(Settings.load(), console, as_json=as_json)


@chain.command("export")
async def chain_export(
    account: Annotated[str | None, typer.Argument(help="An account's name; all accounts if omitted.")] = None,
) -> None:
    """Write the chain of an account, or of all, and all roots to standard output."""
    from app.cli.chain import export_chain

    await export_chain(Settings.load(), sys.stdout, account)


@app.command()
async def verify(
    key: Annotated[
        list[Path] | None, typer.Option(help="Public keys, PEM; default: those of RUNTALLY_SEALING_KEY_FILE.")
    ] = None,
    earlier: Annotated[
        list[Path] | None,
        typer.Option(help="Exports of before: their roots and entries must still be there."),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Check that no receipt, ledger entry, root or sum was changed, removed or added; if so, exits with 1."""
    from app.cli.chain import verify_database

    unchanged = await verify_database(
        Settings.load(), console, keys=key or [], earlier=earlier or [], as_json=as_json
    )
    if not unchanged:
        raise typer.Exit(EXIT_FAILED)


@app.command("import")
async def import_file(
    file: Annotated[Path, typer.Argument(help="An agent (.md), MCP servers or a conversation (.json).")],
    graph: Annotated[str | None, typer.Option(help="What gets MCP servers, or goes on talking.")] = None,
    prompt: Annotated[str | None, typer.Option(help="The next message of a conversation.")] = None,
    title: Annotated[str | None, typer.Option(help="Which conversation, of several.")] = None,
) -> None:
    """Take over what another program has, and print what was left out."""
    from app.cli.imports.files import Wanted
    from app.cli.imports.files import import_file as run_import

    await run_import(Settings.load(), console, file, Wanted(graph, prompt, title))


@app.command("profile")
async def provider_profile(
    account: str,
    profile: Annotated[str, typer.Argument(help="The provider's id of a user profile (uprof_…), or none.")],
) -> None:
    """Set the user profile that the provider reports an account's calls under."""
    from app.cli.reconcile import set_profile

    await set_profile(Settings.load(), console, account, profile)


@app.command("run")
async def run_graph(
    graph: str,
    prompt: str,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="As lines of JSON, as the API has them.")] = False,
) -> None:
    """Run a graph on the server at RUNTALLY_URL and print its events as they arrive."""
    from app.cli.client import run_graph as run_on_server

    await run_on_server(console, graph, prompt, as_json=as_json)


@app.command()
async def receipts(
    run: Annotated[str | None, typer.Option(help="Only those of this run.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Print receipts from the server at RUNTALLY_URL."""
    from app.cli.client import show_receipts

    await show_receipts(console, run, as_json=as_json)
