"""`runtally connect`: the configuration with which another tool uses this server, and a key for it."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.commands.keys import new_key
from app.cli.connections.tools import TOOLS, ToolFile, ToolName, telemetry_of_claude_code
from app.cli.terminal import Terminal, print_words

_output, _notes = Terminal(highlight=False), Terminal(highlight=False, stderr=True)


async def connect(
    name: Annotated[ToolName, typer.Argument(metavar="TOOL", help=", ".join(TOOLS))],
    account: Annotated[str, typer.Option(help="Created if there is no account with this name.")],
    *,
    url: Annotated[str, typer.Option(envvar="RUNTALLY_URL", help="The server's.")] = "http://127.0.0.1:8000",
    write: Annotated[
        bool, typer.Option("--write", help="Add it to the tool's file; all else stays.")
    ] = False,
    file: Annotated[Path | None, typer.Option(help="Another file than the tool's own.")] = None,
    telemetry: Annotated[
        bool,
        typer.Option("--telemetry", help="Claude Code also sends its metrics and events to this server."),
    ] = False,
) -> None:
    """Make a key for another tool, and print the configuration with which it uses this server."""
    tool = TOOLS[name]
    place = file or tool.file
    if file is not None and not write:
        raise typer.BadParameter("needs --write", param_hint="--file")
    if telemetry and name is not ToolName.CLAUDE_CODE:
        raise typer.BadParameter("is for claude-code", param_hint="--telemetry")
    # Before the key: one that is in no file would be lost.
    opened = ToolFile.open(place, tool) if write else None
    key, secret = await new_key(account, tool.scopes, {"name": name.value})
    settings = tool.settings(url.rstrip("/"), secret)
    if telemetry:
        settings["env"].update(telemetry_of_claude_code(url.rstrip("/"), secret))
    if opened is None:
        _output.print(tool.shown(settings), soft_wrap=True, markup=False)
        print_words(_notes, f"This belongs into {place}; --write adds it.", style="dim")
    else:
        opened.add(settings)
        print_words(_notes, f"{place} has it.", style="dim")
    print_words(_notes, f"{tool.next_step} Key {key.id}, scopes {' '.join(key.scopes)}.", style="dim")
