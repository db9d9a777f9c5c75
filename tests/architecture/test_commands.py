"""The commands that people enter are there and explained."""

import re
import subprocess

import typer

from app.cli.main import app
from tests.architecture.test_documentation import documents
from tests.architecture.tree import ROOT
from tests.unit.cli.test_commands import commands_of

TARGETS = {
    *{"help", "demo", "test", "check", "format", "lint", "types", "imports"},
    *{"serve", "migration", "benchmark"},
}
_CALL = re.compile(r"(?:^|`|\$ |\$\(|&& |bin/)runtally ([a-z][^`|>#\n)]*)", re.MULTILINE)
"""What follows the program's name, in code."""


def test_make_help_explains_every_target() -> None:
    command = ["/usr/bin/env", "make", "--no-print-directory", "help"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    explained = dict(re.findall(r"^  make (\S+) +(\S.*)$", listing, re.MULTILINE))

    assert explained.keys() >= TARGETS


def test_the_readme_opens_with_the_two_commands() -> None:
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:25]

    for command in ("make demo", "make test"):
        assert any(line.startswith(command) for line in first_screen), command


def test_documents_name_commands_and_options_that_exist() -> None:
    known = dict(commands_of(typer.main.get_command(app)))
    found = [
        (document.name, call)
        for document in documents()
        if document.parent.name != "decisions"
        for call in _CALL.findall(document.read_text("utf-8"))
    ]

    assert len(found) > 100
    wrong = []
    for document, call in found:
        words = call.split()
        path = next((path for path in (" ".join(words[:2]), words[0]) if path in known), None)
        options = {word.partition("=")[0] for word in words if word.startswith("--")} - {"--help"}
        is_group = words[1:] == [] and any(each.startswith(f"{words[0]} ") for each in known)
        if not (path or is_group) or not options <= known.get(path or "", set()):
            wrong.append(f"{document}: {call}")
    assert wrong == []
