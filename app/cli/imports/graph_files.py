"""Writes graphs into RUNTALLY_GRAPHS_DIR; nothing that the server would refuse."""

import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

import yaml

from app.errors import OperatorError
from app.graphs.file import GraphFile
from app.platform.replaced_files import replacing
from app.platform.serialization.strict_yaml import decoded
from app.platform.settings import Settings

_KEY = "mcp_servers"
_HEADING = re.compile(
    rf"^{_KEY}:(?P<value>.*)\n(?P<rest>(?:\s*(?:#.*)?\n)*)(?P<indentation>[ ]*)", re.MULTILINE
)
_FENCE = re.compile(r"^-{3,}\s*$", re.MULTILINE)
_COMMENT = "# Imported: the effects are those that the servers name. Check each.\n"


class GraphNotWritable(OperatorError):
    """The file of a graph cannot be changed; the text names it."""


def graphs_directory(settings: Settings) -> Path:
    """Where graphs are written; raises `GraphNotWritable`."""
    if settings.graphs_dir is None:
        message = "RUNTALLY_GRAPHS_DIR is not set; graphs are written into that directory."
        raise GraphNotWritable(message)
    return settings.graphs_dir


def existing_graph(settings: Settings, graph: str) -> GraphFile:
    """The file of a graph, by its id or its name; raises `GraphNotWritable`, `GraphDefinitionError`."""
    path = graphs_directory(settings) / f"{graph.rpartition(':')[2]}.md"
    if not path.is_file():
        raise GraphNotWritable(f"There is no graph {path}; write its prompt first, then import.")
    return GraphFile.read(path)


def add_servers(path: Path, servers: Mapping[str, Mapping[str, Any]]) -> None:
    """Add servers to a graph, whose other lines stay as they are; raises as `existing_graph`."""
    text = decoded(path.read_bytes())
    is_dos, text = "\r\n" in text, text.replace("\r\n", "\n")
    lines = _COMMENT + as_yaml(dict(servers))
    end = [each.start() for each in _FENCE.finditer(text)][1]
    if found := _HEADING.search(text, 0, end):
        if found["value"].partition("#")[0].strip() or not found["indentation"]:
            raise GraphNotWritable(f"{path}: write {_KEY} in lines of its own, one below the other.")
        at, lines = found.start("indentation"), indent(lines, found["indentation"])
    else:
        at, lines = end, f"{_KEY}:\n{indent(lines, '  ')}"
    text = text[:at] + lines + text[at:]
    write_graph(path, text.replace("\n", "\r\n") if is_dos else text)


def write_graph(path: Path, text: str) -> None:
    content = text.encode()
    _, errors = GraphFile.parse(path, content).graph()
    if errors:
        raise errors[0]
    try:
        with replacing(path) as new:
            new.write_bytes(content)
    except OSError as error:
        raise GraphNotWritable(f"{path} cannot be written: {error.strerror}.") from error


def as_yaml(value: Mapping[str, Any]) -> str:
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=100)
