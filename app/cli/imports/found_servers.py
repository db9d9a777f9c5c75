"""MCP servers in files of other programs, as a graph has them; pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from app.tools.mcp.spec import SECRET, server_name

SERVERS = ("mcpServers", "servers")
"""Where Claude, Cursor and others have them, and where VS Code has them."""

_KEYS = {"type", "command", "args", "url"}
_URLS = {"serverUrl": "url", "httpUrl": "url"}
"""What some programs call a key."""
_SAYS_NOTHING = {"disabled", "enabled", "name", "description"}
"""Keys that change nothing about a server that is imported."""

_REFERENCE = re.compile(r"\$\{(?:env:|input:)?([A-Za-z_][\w.-]*)(?::-([^}]*))?\}")
_SCHEME = re.compile(r"(?:Bearer|Basic|Token) ", re.IGNORECASE)
_SENSITIVE = r"[\w-]*(?:key|token|secret|passw|auth)[\w-]*"
_SECRET_ARGUMENT = re.compile(
    rf"-{{0,2}}{_SENSITIVE}[=:].+|.*\bBearer .+|(?:sk-|gh[pousr]_|xox[abp]-).+|.*://[^/@\s]+@.+|"
    rf".*[?&]{_SENSITIVE}=.+",
    re.IGNORECASE | re.DOTALL,
)
_SECRET_OPTION = re.compile(rf"--?{_SENSITIVE}", re.IGNORECASE)


@dataclass(slots=True)
class FoundServer:
    """A server of a file: `entry` is that of a graph without `tools`, `problem` why there is none."""

    origin: str
    name: str
    entry: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, str | None] = field(default_factory=dict, repr=False)
    """By the names that the entry refers to; None if the file refers to a variable that is not set."""
    left_out: list[str] = field(default_factory=list)
    """What of it has no counterpart."""
    problem: str | None = None


def found_servers(servers: Mapping[str, Any], variables: Mapping[str, str]) -> Iterator[FoundServer]:
    """Each server; `variables` are those that the file may refer to.

    No value of a header or of the environment is copied: any may be a secret, so all become references.
    """
    for origin, server in servers.items():
        found = FoundServer(origin, server_name(origin))
        if isinstance(server, dict):
            _convert(found, server, variables)
        else:
            found.problem = "it is no object"
        yield found


def _convert(found: FoundServer, server: Mapping[str, Any], variables: Mapping[str, str]) -> None:
    for given, value in server.items():
        key = _URLS.get(given, given)
        if key in {"env", "headers"} and isinstance(value, dict):
            found.entry[key] = {
                str(name): _referring(found, str(name), str(text), variables) for name, text in value.items()
            }
        elif key in _KEYS:
            found.entry[key] = value
        elif key not in _SAYS_NOTHING:
            found.left_out.append(f"its {key}")
    found.problem = _problem_of(server, found.entry)


def _problem_of(server: Mapping[str, Any], entry: Mapping[str, Any]) -> str | None:
    if server.get("disabled") is True or server.get("enabled") is False:
        return "it is disabled there"
    args = entry.get("args", [])
    texts = [str(each) for each in [entry.get("command"), *(args if isinstance(args, list) else [args])]]
    texts.append(str(entry.get("url")))
    if any(_REFERENCE.search(text) for text in texts):
        return "variables are filled in only in env and headers, not in command, args and url"
    follows_option = any(_SECRET_OPTION.fullmatch(text) for text in texts[1:-2])
    if follows_option or any(_SECRET_ARGUMENT.fullmatch(text) for text in texts):
        return "its args or its url seem to have a secret, which only env and headers may refer to"
    return None


def _referring(found: FoundServer, name: str, text: str, variables: Mapping[str, str]) -> str:
    """The value with a reference in place of what may be secret."""
    scheme = found_scheme[0] if (found_scheme := _SCHEME.match(text)) else ""
    rest = text[len(scheme) :]
    if reference := _REFERENCE.fullmatch(rest):
        secret = _reference(reference)
    else:
        secret = _as_name(name)
        # Another server may have another value under the same name.
        if not secret.startswith(f"{found.name.upper()}_"):
            secret = _as_name(f"{found.name}_{name}")
    found.secrets[secret] = _filled_in(rest, variables)
    return f"{scheme}${{{secret}}}"


def _reference(found: re.Match[str]) -> str:
    """The name that a reference has in a graph."""
    return found[1] if SECRET.fullmatch(f"${{{found[1]}}}") else _as_name(found[1])


def _filled_in(text: str, variables: Mapping[str, str]) -> str | None:
    values = [variables.get(_reference(each), each[2]) for each in _REFERENCE.finditer(text)]
    if None in values:
        return None
    left = iter(values)
    return _REFERENCE.sub(lambda _: next(left) or "", text)


def _as_name(text: str) -> str:
    name = re.sub(r"\W+", "_", text, flags=re.ASCII).upper()
    return name if not name[:1].isdigit() else f"MCP_{name}"
