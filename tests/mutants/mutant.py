"""The planted faults, as the files in `faults` list them.

A block of such a file is a comment, or the file of the faults that follow it and the tests that are run first
for them, or one fault: its name, and which lines or parts of lines become which others, like a diff.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FAULTS = Path(__file__).with_name("faults")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: in `file`, `old` (which occurs there once) becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    """Tests to run first, besides those that mirror the module."""


def mutants_in(text: str) -> Iterator[Mutant]:
    """The faults that the text of a file lists."""
    file, tests = "", tuple[str, ...]()
    for block in text.strip("\n").split("\n\n"):
        head, *lines = block.split("\n")
        if head.startswith("#"):
            continue
        if lines:
            yield Mutant(head, file, _text(lines, "-"), _text(lines, "+"), tests)
        else:
            file, _, named = head.partition(":")
            tests = tuple(named.split())


def _text(lines: list[str], sign: str) -> str:
    assert all(line[0] in "-+" for line in lines), lines
    return "\n".join(line[2:] for line in lines if line[0] == sign)


MUTANTS = [
    mutant for path in sorted(_FAULTS.glob("*.faults")) for mutant in mutants_in(path.read_text("utf-8"))
]
