"""`runtally mcp`: options of its commands."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from app.cli.errors import Commands
from app.cli.terminal import Terminal
from app.platform.settings import Settings

mcp = Commands(help="External MCP servers: log in, import.", no_args_is_help=True)
_console = Terminal(highlight=False)


@mcp.command("login")
async def mcp_login(
    graph: str,
    server: Annotated[str, typer.Argument(help="Its name in the graph.")],
    *,
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Where the browser is sent to; 0: any.")] = 0,
    paste: Annotated[bool, typer.Option("--paste", help="Paste the address that the browser shows.")] = False,
) -> None:
    """Log in at an MCP server with OAuth; the tokens are stored for all servers of this database."""
    from app.cli.mcp import login

    pasted = sys.stdin if paste else None
    await login(Settings.load(), _console, graph=graph, server=server, port=port, pasted=pasted)


@mcp.command("import")
async def mcp_import(
    file: Annotated[Path, typer.Argument(help="As .mcp.json or claude_desktop_config.json.")],
    graph: Annotated[str, typer.Option(help="The graph in RUNTALLY_GRAPHS_DIR to add them to.")],
) -> None:
    """Add the MCP servers of a file to a graph, with the tools that they offer."""
    from app.cli.imports.servers import import_servers

    await import_servers(Settings.load(), _console, file, graph)
