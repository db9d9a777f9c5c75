"""Plausible mistakes in each file and in settings: one sentence with the file, the place, what is allowed."""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from app.billing.prices.price_file import read_prices
from app.errors import OperatorError
from app.executors.claude_agent import graph_keys as claude_agent
from app.executors.messages_api import graph_keys as messages_api
from app.graphs.catalog import GraphCatalog
from app.models.file import read_models
from app.platform.settings import Settings
from tests.library_words import shown_words

GRAPH = """\
---
description: Answers mail.
provider: claude_agents
model: sonnet
tools: [core__calculate]
native_tools: [Read]
max_turns: 8
max_budget_usd: "0.50"
timeout_s: 120
thinking_budget_tokens: 2048
show_thinking: true
rules:
  - tool: core__calculate
    when: args.expression == '1'
    do: deny
    message: Not this one.
    stop: true
approve: [external_side_effect]
client_tools: {names: "pick_.*"}
permission_mode: default
on_disconnect: cancel
retry: true
workspace:
  max_files: 500
  keep_s: 3600
mcp_servers:
  library:
    url: https://library.example/mcp
    headers: {Accept: text}
    optional: true
    timeout_s: 5
    tools:
      search: read_only
agents:
  helper:
    description: Helps.
    prompt: Help.
    tools: [Read]
---
You answer mail.
"""
MODELS = """\
aliases:
  fast: claude-haiku-5-5
roles:
  triage: fast
models:
  - id: claude-opus-5-5
    effort: high
    thinking: 4096
    max_output_tokens: 16000
    context_window: 200000
  - pattern: claude-haiku-.*
    fallback: sonnet
closed: false
"""
PRICES = """\
prices:
  - model: claude-own-1
    unlisted: true
    since: 2026-12-01
    input: "2"
    output: "10"
    long_context:
      above: 1000
      input: "4"
factors:
  - models: [claude-own-1]
    speed: {fast: "2"}
"""
ENV = """\
# Settings
RUNTALLY_MARKUP=1.5
RUNTALLY_LOG_LEVEL="info"

RUNTALLY_TOOLS=
"""


CHECKS = {claude_agent.PROVIDER: claude_agent.check_graph, messages_api.PROVIDER: messages_api.check_graph}


class Kind(NamedTuple):
    """A kind of file, a valid one, and what the sentence begins with."""

    name: str
    text: str
    begins: str
    least: int = 0
    """How many of the changes are mistakes, at least."""


GRAPH_FILE = Kind("graphs/mailer.md", GRAPH, "graph file mailer.md: ", 350)
KINDS = (
    GRAPH_FILE,
    Kind("models.yaml", MODELS, "RUNTALLY_MODELS_FILE: ", 140),
    Kind("prices.yaml", PRICES, "RUNTALLY_PRICES_FILE: ", 140),
)
ENV_FILE = Kind(".env", ENV, "The ")

_KEY = re.compile(r"^(\s*(?:- )?)([a-z_]+)(:\s*)(.*)$")
VALUES = (
    *("5", "-1", "x y", "[1, {a: b}]", "{a: [1]}", "true", "", '"0"', "2026-02-31", "@x", "*x", "!x", "a: b"),
)
"""In place of a value, by turns; some are right in some places."""


def changed_lines(text: str) -> Iterator[tuple[str, bytes]]:
    """Files in which one line is wrong, or may be, with what it is."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if (found := _KEY.match(line)) is None:
            continue
        indent, key, colon, value = found.groups()
        changes = {
            "misspelt": f"{indent}{key[:-1]}{colon}{value}",
            "upper case": f"{indent}{key.title()}{colon}{value}",
            "tab": f"\t{line.strip()}",
            "indented": f" {line}",
            "no colon": f"{indent}{key} {value}",
            "no space": f"{indent}{key}:{value}",
            "twice": f"{line}\n{indent.replace('-', ' ')}{key}{colon}{value}",
            "open quote": f"{indent}{key}{colon}'{value}",
            "open list": f"{indent}{key}{colon}[{value}",
            "left out": "",
            **{f"value {each}": f"{indent}{key}{colon}{each}" for each in VALUES[number % 3 :: 3]},
        }
        for kind, change in changes.items():
            yield f"{key}, {kind}", "\n".join([*lines[:number], change, *lines[number + 1 :], ""]).encode()


def whole_files(kind: Kind) -> Iterator[tuple[str, bytes]]:
    """Files that are wrong as a whole, or may be."""
    content = kind.text.encode()
    yield "empty", b""
    yield "blank", b"\n\n"
    yield "Latin-1", content.replace(b"claude", b"cl\xe4ude").replace(b"mail", b"m\xe4il")
    yield "UTF-16", kind.text.encode("utf-16")
    yield "control character", content.replace(b"claude", b"claude\x07")
    yield "a list", b"- a\n- b\n"
    yield "JSON that is cut", b'{"models": ['
    yield "HTML", b"<!doctype html>\n<html><body>404: not found</body></html>"
    yield "an archive", b"PK\x03\x04\x14\x00\x00\x00"
    yield "nested", b"[" * 2_000
    yield "two documents", content + b"---\n" + content
    if kind is GRAPH_FILE:
        yield "no front matter", b"You answer mail."
        yield "no end of it", content.replace(b"---\nYou", b"You")
        yield "no prompt", content.replace(b"You answer mail.", b"")


def load(directory: Path, kind: Kind) -> None:
    """Read a file as the server does at its start."""
    path = directory / kind.name
    if kind is GRAPH_FILE:
        GraphCatalog.load([path.parent], checks=CHECKS, known_tools={"core__calculate"})
    elif kind is ENV_FILE:
        Settings.load(_env_file=path)
    else:
        (read_models if path.name == "models.yaml" else read_prices)(path)


def sentence_of(directory: Path, kind: Kind, label: str = "") -> str:
    """What prevents the start; empty if nothing does."""
    try:
        load(directory, kind)
    except OperatorError as error:
        text = str(error)
        assert text.startswith(kind.begins), (label, text)
        assert len(text.splitlines()) == 1, (label, text)
        assert shown_words(text) == set(), (label, text)
        return text
    return ""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_mistake_in_a_file_is_named_with_its_place(tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / kind.name
    path.parent.mkdir(exist_ok=True)
    for text in (kind.text, f"\ufeff{kind.text}", kind.text.replace("\n", "\r\n")):
        path.write_bytes(text.encode())
        assert sentence_of(tmp_path, kind) == ""
    mistakes: list[str] = []
    for label, content in (*changed_lines(kind.text), *whole_files(kind)):
        path.write_bytes(content)
        if sentence := sentence_of(tmp_path, kind, label):
            mistakes.append(sentence)
            key, _, change = label.partition(", ")
            assert re.search(r"\bline [0-9]+", sentence) or key in sentence or not change, (label, sentence)

    assert len(mistakes) > kind.least
    without_line = [text for text in mistakes if not re.search(r"\bline [0-9]+", text)]
    assert len(without_line) <= len(mistakes) / 10, without_line


@pytest.mark.parametrize("kind", [*KINDS, ENV_FILE], ids=lambda kind: kind.name)
def test_what_cannot_be_read_is_named(tmp_path: Path, kind: Kind) -> None:
    path = tmp_path / kind.name
    path.mkdir(parents=True)
    is_directory = sentence_of(tmp_path, kind)
    path.rmdir()
    path.write_text(kind.text)
    path.chmod(0)
    is_unreadable = sentence_of(tmp_path, kind) if os.geteuid() else "cannot be read"

    assert "cannot be read" in is_directory
    assert "cannot be read" in is_unreadable


def test_every_mistake_in_the_env_file_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    for text in (ENV, f"\ufeff{ENV}", ENV.replace("\n", "\r\n"), ""):
        path.write_bytes(text.encode())
        assert sentence_of(tmp_path, ENV_FILE) == ""
    lines = ("RUNTALLY_MARKUP: 1.5", "RUNTALLY_MARKUP 1.5", 'RUNTALLY_MARKUP="1.5', "- RUNTALLY_MARKUP", "{")
    for line in lines:
        path.write_text(ENV.replace("RUNTALLY_MARKUP=1.5", f"\n{line}"))
        assert "line 3 is not NAME=value" in sentence_of(tmp_path, ENV_FILE), line
    for content in (b"\xff=1", ENV.encode("utf-16")):
        path.write_bytes(content)
        assert sentence_of(tmp_path, ENV_FILE) == "The file .env is not UTF-8 text."
    path.write_bytes("\ufeffRUNTALLY_MARKUP=much".encode())
    with pytest.raises(OperatorError, match="RUNTALLY_MARKUP: must be a decimal number"):
        load(tmp_path, ENV_FILE)


WRONG = (
    *("hunter2 x", "-1", "1.5", "99999999999999999999", "[1", '{"a": 1}', "yes please", "ftp://hunter2"),
    "\t@",
)
VARIABLES = {str(each.validation_alias) for each in Settings.model_fields.values()}


def test_every_wrong_setting_is_named() -> None:
    named: set[str] = set()
    for value in WRONG:
        with pytest.raises(OperatorError) as raised:
            Settings.load(_env_file=None, **dict.fromkeys(VARIABLES, value))
        assert shown_words(str(raised.value)) == set()
        assert "hunter2" not in str(raised.value)
        found = {re.split("[:.]", line.strip())[0] for line in str(raised.value).splitlines()[1:]}
        assert found <= VARIABLES
        named |= found

    # The others are texts.
    assert len(named) > len(VARIABLES) / 2
