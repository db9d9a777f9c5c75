"""An agent of Claude Code as a graph."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from frontmatter.default_handlers import YAMLHandler

from app.cli.imports.source import NotImportable
from app.executors.claude_agent.graph_keys import NativeTool
from app.models.registry import ALIASES, CLAUDE_ID
from app.platform.serialization.strict_yaml import YamlDocument, YamlInvalid

_PLAIN_VALUE = re.compile(r"^([A-Za-z][\w-]*):[ \t]+([^\s'\"\[{|>].*: .*|[@`%*&!].*)$", re.MULTILINE)
"""A text that YAML takes only in quotes."""


@dataclass(frozen=True, slots=True)
class ImportedAgent:
    """The front matter and the prompt of a graph, and what has no counterpart in one."""

    name: str
    head: dict[str, Any]
    prompt: str
    left_out: list[str]


def read_agent(path: Path, text: str) -> ImportedAgent:
    """Convert an agent; raises `NotImportable`."""
    head, prompt = _parts(path, text)
    left_out: list[str] = []
    graph: dict[str, Any] = {"description": str(head.pop("description", "")).strip()}
    name = str(head.pop("name", path.stem))
    if not graph["description"] or not prompt:
        raise NotImportable(path, "is no agent: it needs a description in its front matter, and a prompt")
    if Path(name).name != name:
        raise NotImportable(path, f"name: {name} is no name of a file")
    match str(head.pop("model", "inherit")):
        case "inherit":
            pass
        case model if model in ALIASES or CLAUDE_ID.fullmatch(model):
            graph["model"] = model
        case model:
            left_out.append(f"the model {model}: no such model is known")
    if "tools" in head:
        native, others = _tools(head.pop("tools"))
        graph |= {"native_tools": native} if native else {}
        left_out += [f"the tool {tool}" for tool in others]
    else:
        left_out.append("all tools: without a list, an agent there has every tool")
    if isinstance(turns := head.get("maxTurns"), int):
        graph["max_turns"] = turns
        del head["maxTurns"]
    left_out += [f"the key {key}" for key in head]
    return ImportedAgent(name, graph, prompt, left_out)


def _parts(path: Path, text: str) -> tuple[dict[str, Any], str]:
    handler = YAMLHandler()
    try:
        source, prompt = handler.split(text.replace("\r\n", "\n").strip())
    except ValueError as error:
        raise NotImportable(path, "has no front matter between two lines ---") from error
    try:
        head = YamlDocument.read(source, first_line=2).value
    except YamlInvalid:
        # Claude Code takes a text with a colon in it.
        quoted = _PLAIN_VALUE.sub(lambda found: f"{found[1]}: {json.dumps(found[2])}", source)
        try:
            head = YamlDocument.read(quoted, first_line=2).value
        except YamlInvalid as error:
            raise NotImportable(path, f"front matter: {error}") from error
    if not isinstance(head, dict):
        raise NotImportable(path, "front matter: must be keys and values")
    return {str(key): value for key, value in head.items()}, prompt.strip()


def _tools(tools: Any) -> tuple[list[str], list[str]]:
    """The tools that graphs have, and the others.

    One with a rule, such as `Bash(git *)`, is among the others: without its rule it could do more.
    """
    named = tools.split(",") if isinstance(tools, str) else tools if isinstance(tools, list) else []
    names = list(dict.fromkeys(str(name).strip() for name in named if str(name).strip()))
    native = [name for name in names if name in get_args(NativeTool)]
    return native, [name for name in names if name not in native]
