"""Code blocks of documents: shell, Python, YAML and TOML can be parsed, and what they name exists.

Executed are tutorials (tests/e2e), quick starts (tests/clients) and SQL (tests/integration). JSON is parsed
beside this file. Not checked: blocks without a language, and JavaScript outside quick starts and tutorials.
"""

import ast
import importlib
import importlib.util
import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from shutil import which
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.api_document import api_document
from tests.architecture.test_documentation import documents
from tests.architecture.tree import ROOT

_BLOCK = re.compile(r"^ *```(\S+)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_REQUEST = re.compile(r"^(GET|POST|PUT|PATCH|DELETE) (/[^\s?]+)\S*(?: HTTP/1\.1)?$")
_ANY_ID = re.compile(r"\\\{[^}]+\\\}")
_SHELL = {"sh", "bash", "console"}


def blocks(*languages: str) -> Iterator[tuple[str, str]]:
    """Where a block is, and its text."""
    for document in documents():
        if document.parent.name != "decisions":
            for language, text in _BLOCK.findall(document.read_text("utf-8")):
                if language in languages:
                    yield f"{document.relative_to(ROOT)}: {text[:50]!r}", text


def commands(text: str) -> str:
    """What is entered in a terminal, without what is printed."""
    if not text.startswith("$ "):
        return text
    entered = re.findall(r"^\$ (.*<<END\n(?:.*\n)*?END|(?:.*\\\n)*.*)", text, re.MULTILINE)
    return "\n".join(entered)


@pytest.mark.parametrize(("where", "text"), list(blocks(*_SHELL)), ids=str)
def test_commands_can_be_entered(where: str, text: str) -> None:
    command = [which("bash") or "", "-n"]
    checked = subprocess.run(command, input=commands(text), text=True, capture_output=True, check=False)

    assert (checked.returncode, checked.stderr) == (0, ""), where


@pytest.mark.parametrize(("where", "text"), list(blocks("python")), ids=str)
def test_python_imports_what_exists(where: str, text: str) -> None:
    for node in ast.walk(ast.parse(text, where)):
        if isinstance(node, ast.Import):
            assert all(importlib.util.find_spec(each.name) for each in node.names), where
        elif isinstance(node, ast.ImportFrom) and node.module:
            module = importlib.import_module(node.module)
            assert all(hasattr(module, each.name) for each in node.names), where


@pytest.mark.parametrize(("where", "text"), list(blocks("yaml")), ids=str)
def test_yaml_can_be_read(where: str, text: str) -> None:
    assert list(yaml.safe_load_all(text)), where


@pytest.mark.parametrize(("where", "text"), list(blocks("toml")), ids=str)
def test_toml_can_be_read(where: str, text: str) -> None:
    assert tomllib.loads(text), where


@pytest.mark.parametrize(("where", "text"), list(blocks("http")), ids=str)
def test_requests_are_those_of_the_api(where: str, text: str) -> None:
    head, _, body = text.partition("\n\n")
    if head.startswith("HTTP/1.1 "):
        assert json.loads(body)["status"] == int(head.split()[1])
        return
    request = _REQUEST.match(head.split("\n")[0])
    assert request, where
    media, mistakes = _checked(request[1], request[2], body)
    if media == "application/json":
        assert mistakes == []
    else:
        assert [json.loads(line) for line in body.splitlines()] or not body


@pytest.mark.parametrize(
    ("where", "text"), [block for block in blocks(*_SHELL) if "curl " in block[1]], ids=str
)
def test_calls_with_curl_are_those_of_the_api(where: str, text: str) -> None:
    for line in commands(text.replace("\\\n", " ")).splitlines():
        words = shlex.split(line.partition("|")[0], comments=True)
        if words[:1] != ["curl"]:
            continue
        options = dict(pairwise(words))
        path = urlsplit(next(word for word in words if word.startswith("http"))).path
        body = options.get("-d", "")
        if path.startswith("/v1/"):
            _, mistakes = _checked(options.get("-X", "POST" if body else "GET"), path, body or "{}")
            assert mistakes == [], where
            assert not body or "Content-Type: application/json" in words, where


def _checked(method: str, path: str, body: str) -> tuple[str, list[str]]:
    """The type of the body of a request that the API has, and what is wrong with a body in JSON."""
    operation = _operation(method.lower(), path)
    media, content = next(iter(operation.get("requestBody", {}).get("content", {"": {}}).items()))
    if media != "application/json":
        return media, []
    schema = {**content["schema"], "components": api_document()["components"]}
    return media, [error.message for error in Draft202012Validator(schema).iter_errors(json.loads(body))]


def _operation(method: str, path: str) -> dict[str, Any]:
    """What the API document has for a path."""
    for template, operations in api_document()["paths"].items():
        if re.fullmatch(_ANY_ID.sub("[^/]+", re.escape(template)), path) and method in operations:
            found: dict[str, Any] = operations[method]
            return found
    pytest.fail(f"{method} {path} is not in the API document")
