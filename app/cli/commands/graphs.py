"""`runtally graphs`: options of its commands."""

from typing import Annotated

import typer

from app.cli.errors import EXIT_FAILED, Commands
from app.cli.terminal import AsJson, Terminal
from app.platform.server.imports import quick_imports
from app.platform.settings import Settings

graphs = Commands(help="Graphs: check files and rules.", no_args_is_help=True)
_console = Terminal(highlight=False)


@graphs.callback()
def _group() -> None:
    """Keep `check` a command of its own, although it is the only one."""


@graphs.command("check")
async def graphs_check(
    graph: Annotated[str | None, typer.Argument(help="Such as claude_agents:mail; all if omitted.")] = None,
    tool: Annotated[str | None, typer.Argument(help="The tool of an example call.")] = None,
    args: Annotated[str, typer.Argument(help="Its arguments, as JSON.")] = "{}",
    *,
    account: Annotated[str, typer.Option(help="The account's id of the call.")] = "",
    conversation: Annotated[str, typer.Option(help="The run's stateKey.")] = "",
    as_json: AsJson = False,
) -> None:
    """Load graphs and print what is wrong with them, or which rule decides about an example call."""
    with quick_imports():
        from app.cli.graphs.check import ExampleCall, check_call, check_graphs

    if graph is not None and tool is not None:
        call = ExampleCall(graph, tool, args, account, conversation)
        await check_call(Settings.load(), _console, call, as_json=as_json)
    elif not check_graphs(Settings.load(), _console, graph, as_json=as_json):
        raise typer.Exit(EXIT_FAILED)
