"""`runtally import`: by the kind of the file."""

from pathlib import Path

from rich.console import Console

from app.cli.imports.claude_agent import read_agent
from app.cli.imports.graph_files import GraphNotWritable, as_yaml, graphs_directory, write_graph
from app.cli.imports.servers import import_servers
from app.cli.imports.source import NotImportable, read_source
from app.platform.settings import Settings


async def import_file(settings: Settings, console: Console, path: Path, graph: str | None) -> None:
    """Import an agent or MCP servers; raises `NotImportable` and what writing a graph raises."""
    match path.suffix.lower():
        case ".md":
            _import_agent(settings, console, path)
        case ".json" if graph is not None:
            await import_servers(settings, console, path, graph)
        case ".json":
            raise NotImportable(path, "MCP servers are added to a graph: name it with --graph")
        case _:
            raise NotImportable(path, "must be a .md file with an agent, or a .json file with MCP servers")


def _import_agent(settings: Settings, console: Console, path: Path) -> None:
    agent = read_agent(path, read_source(path))
    target = graphs_directory(settings) / f"{agent.name}.md"
    if target.exists():
        raise GraphNotWritable(f"{target} is there already, and nothing is overwritten.")
    write_graph(target, f"---\n{as_yaml(agent.head)}---\n{agent.prompt}\n")
    console.print(f"Wrote {target}", soft_wrap=True)
    for each in agent.left_out:
        console.print(f"Left out: {each}", soft_wrap=True)
