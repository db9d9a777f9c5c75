"""Links between documents lead somewhere, their JSON is JSON, and the keys of graphs are all there."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from app.gateway.web.spec import WebSpec
from app.graphs.rules.spec import ToolRule
from app.graphs.spec import GraphSpec
from app.tools.mcp.spec import HttpServer, OAuthClient, StdioServer
from app.workspaces.spec import Mount, WorkspaceSpec
from tests.architecture.tree import ROOT

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_JSON = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def documents() -> Iterator[Path]:
    yield from (ROOT / name for name in ("README.md", "CONTRIBUTING.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub builds them."""
    headings = _HEADING.findall(_CODE.sub("", document.read_text("utf-8")))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_between_documents_resolve() -> None:
    broken = []
    for document in documents():
        for link in _LINK.findall(_CODE.sub("", document.read_text("utf-8"))):
            path, _, anchor = link.partition("#")
            target = (document.parent / path).resolve() if path else document
            if "://" in link or link.startswith("mailto:"):
                continue
            if not target.exists() or (anchor and anchor not in anchors(target)):
                broken.append(f"{document.relative_to(ROOT)}: {link}")

    assert broken == []


def test_json_examples_are_valid_json() -> None:
    broken = []
    for document in documents():
        for example in _JSON.findall(document.read_text("utf-8")):
            try:
                json.loads(example)
            except ValueError as error:
                broken.append(f"{document.relative_to(ROOT)}: {error}: {example[:60]}")

    assert broken == []


def test_every_key_of_a_graph_is_in_a_table() -> None:
    text = "".join((ROOT / "docs" / name).read_text("utf-8") for name in ("GRAPHS.md", "TOOLS.md"))
    cells = re.findall(r"^\| (`[^|]+) \|", text, re.MULTILINE)
    documented = {name for cell in cells for name in re.findall(r"`([a-z_]+)`", cell)}
    models = (GraphSpec, WebSpec, ToolRule, WorkspaceSpec, Mount, HttpServer, StdioServer, OAuthClient)
    keys = {name for model in models for name in model.model_fields}

    assert keys - {"name", "system_prompt"} - documented == set()
