"""Mutant: one planted fault."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault: in `file`, `old` (which occurs there once) becomes `new`."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    """Tests to run first, besides those that mirror the module."""
