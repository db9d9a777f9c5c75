"""The commands a contributor types are there and explained."""

import re
import subprocess

from tests.architecture.tree import ROOT

TARGETS = {
    *{"help", "demo", "test", "check", "format", "lint", "types", "imports"},
    *{"serve", "migration", "benchmark"},
}


def test_make_help_explains_every_target() -> None:
    command = ["/usr/bin/env", "make", "--no-print-directory", "help"]
    listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    explained = dict(re.findall(r"^  make (\S+) +(\S.*)$", listing, re.MULTILINE))

    assert explained.keys() >= TARGETS


def test_the_readme_opens_with_the_two_commands() -> None:
    first_screen = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:25]

    for command in ("make demo", "make test"):
        assert any(line.startswith(command) for line in first_screen), command
