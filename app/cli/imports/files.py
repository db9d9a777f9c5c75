"""`runtally import`: an agent, MCP servers or a conversation of another program, by the kind of the file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from app.cli.client import show_run
from app.cli.imports.claude_agent import read_agent
from app.cli.imports.conversation import conversations_in, read_messages
from app.cli.imports.graph_files import GraphNotWritable, as_yaml, graphs_directory, write_graph
from app.cli.imports.servers import import_servers, servers_in
from app.cli.imports.source import NotImportable, read_json, read_source
from app.cli.terminal import print_words
from app.ids import new_uuid
from app.platform.settings import Settings
from runtally import AsyncClient
from runtally.options import Message

_LISTED = 20
"""How many titles of conversations are shown to choose from."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be made of a file of JSON."""

    graph: str | None = None
    prompt: str | None = None
    """The next message of a conversation."""
    title: str | None = None
    """Which conversation, of several."""


async def import_file(settings: Settings, console: Console, path: Path, wanted: Wanted) -> None:
    """Import a file; raises `NotImportable`, and what writing a graph or running it raises."""
    match path.suffix.lower():
        case ".md":
            _import_agent(settings, console, path)
        case ".json":
            document = read_json(path)
            if wanted.graph is None:
                raise NotImportable(path, "name the graph that gets it with --graph")
            if servers_in(document) is not None:
                await import_servers(settings, console, path, wanted.graph)
            else:
                await _import_conversation(console, path, document, wanted, graph=wanted.graph)
        case _:
            problem = "must be a .md file with an agent, or a .json file with MCP servers or a conversation"
            raise NotImportable(path, problem)


def _import_agent(settings: Settings, console: Console, path: Path) -> None:
    agent = read_agent(path, read_source(path))
    target = graphs_directory(settings) / f"{agent.name}.md"
    if target.exists():
        raise GraphNotWritable(f"{target} is there already, and nothing is overwritten.")
    write_graph(target, f"---\n{as_yaml(agent.head)}---\n{agent.prompt}\n")
    print_words(console, f"Wrote {target}")
    for each in agent.left_out:
        print_words(console, f"Left out: {each}")


async def _import_conversation(
    console: Console, path: Path, document: Any, wanted: Wanted, *, graph: str
) -> None:
    """Go on with a conversation: its messages are the history of the first run."""
    found = read_messages(_chosen(path, document, wanted.title))
    for what, count in found.left_out.items():
        print_words(console, f"Left out: {what}, {count} times")
    messages: list[Message] = list(found.messages)
    if wanted.prompt is not None:
        messages.append({"role": "user", "content": wanted.prompt})
    if not messages or messages[-1]["role"] != "user":
        raise NotImportable(path, "the conversation ends with an answer: go on with --prompt TEXT")
    state_key = f"imported-{new_uuid()}"
    print_words(console, f"Conversation {state_key}: {len(messages)} messages")
    async with AsyncClient() as client:
        await show_run(client, console, graph, messages, state_key=state_key)


def _chosen(path: Path, document: Any, title: str | None) -> Any:
    known = conversations_in(document)
    if title is None and len(known) == 1:
        return next(iter(known.values()))
    if title in known:
        return known[title]
    if not known:
        raise NotImportable(path, "has neither MCP servers nor messages of a conversation")
    titles = ", ".join(map(repr, list(known)[:_LISTED]))
    raise NotImportable(path, f"name one of its {len(known)} conversations with --title, such as {titles}")
