"""`runtally mcp import`: adds the MCP servers of a file to a graph, with the tools that they offer."""

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich.console import Console

from app.cli.imports.found_servers import SERVERS, FoundServer, found_servers
from app.cli.imports.graph_files import add_servers, existing_graph
from app.cli.imports.source import NotImportable, read_json
from app.cli.terminal import print_words
from app.platform.network import Network
from app.platform.serialization.mistakes import mistakes_in
from app.platform.settings import Settings
from app.tools.mcp.offered import ServerSilent, offered_tools
from app.tools.mcp.spec import SECRET, AnyServer, McpServer, check_names, configured_values
from runtally.tools.tool import Effect

_SERVER: TypeAdapter[AnyServer] = TypeAdapter(McpServer)
_UNKNOWN: Mapping[str, Effect] = {"unknown": "external_side_effect"}
"""In place of the tools of a server that is yet to be asked for them."""


async def import_servers(settings: Settings, console: Console, path: Path, graph: str) -> None:
    """Ask the servers and add them; print what to check and to set, and what was left out.

    Raises `NotImportable` if none could be added.
    """
    file = existing_graph(settings, graph)
    known = {name: value.get_secret_value() for name, value in settings.mcp_secrets.items()}
    if (listed := servers_in(read_json(path))) is None:
        raise NotImportable(path, f"has no {' or '.join(SERVERS)} with the MCP servers")
    servers = list(found_servers(listed, {**os.environ, **known}))
    taken = set(file.head.get("mcp_servers") or ())
    for server in servers:
        if server.problem is None and server.name in taken:
            server.problem = f"the graph has another server {server.name}"
        taken.add(server.name)
    network = settings.network
    await asyncio.gather(*(_ask(server, network) for server in servers if server.problem is None))
    added = [server for server in servers if server.problem is None]
    if added:
        add_servers(file.path, {server.name: server.entry for server in added})
        _show_added(console, file.path, added, known)
    for server in servers:
        left_out = server.problem or ", ".join(server.left_out)
        if left_out:
            print_words(console, f"Left out of {server.origin}: {left_out}")
    if not added:
        raise NotImportable(path, "no server of it was added")


def servers_in(document: Any) -> dict[str, Any] | None:
    """The MCP servers of a file, by name."""
    for key in SERVERS:
        if isinstance(document, dict) and isinstance(document.get(key), dict):
            servers: dict[str, Any] = document[key]
            return servers
    return None


async def _ask(server: FoundServer, network: Network) -> None:
    """Add the tools to the entry, or note why the server cannot be used."""
    if unset := [name for name, value in server.secrets.items() if value is None]:
        server.problem = f"{', '.join(unset)} is set neither in RUNTALLY_MCP_SECRETS nor in the environment"
        return
    try:
        spec = _SERVER.validate_python({**server.entry, "tools": _UNKNOWN})
        values = {
            name: SECRET.sub(lambda found: server.secrets[found[1]] or "", value)
            for name, value in configured_values(spec).items()
        }
        offered = await offered_tools(server.name, spec, values, network=network)
    except ValidationError as error:
        (mistake, *_) = mistakes_in(error.errors(include_input=False), server.entry)
        server.problem = " ".join([".".join(map(str, mistake.path)), mistake.problem]).strip()
        return
    except ServerSilent as error:
        server.problem = str(error)
        return
    tools: dict[str, Effect] = {}
    for name, effect in offered.items():
        if _have_ids(server.name, spec, {**tools, name: effect}):
            tools[name] = effect
        else:
            server.left_out.append(f"tool {name}, which gets no id of its own")
    server.entry["tools"] = tools
    if not tools:
        server.problem = "it offers no tool that can be used"


def _have_ids(server: str, spec: AnyServer, tools: Mapping[str, Effect]) -> bool:
    try:
        check_names({server: spec.model_copy(update={"tools": tools})})
    except ValueError:
        return False
    return True


def _show_added(console: Console, path: Path, servers: Sequence[FoundServer], known: Collection[str]) -> None:
    print_words(console, f"{path}: added, with the effects that the servers name. Check each:")
    for server in servers:
        tools = ", ".join(f"{name} {effect}" for name, effect in server.entry["tools"].items())
        print_words(console, f"  {server.name}: {tools}")
    if missing := sorted({name for server in servers for name in server.secrets} - set(known)):
        names = ", ".join(missing)
        message = f"Set in RUNTALLY_MCP_SECRETS, with the values that the imported file has: {names}"
        print_words(console, message)
