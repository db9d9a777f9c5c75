"""The words of libraries that read files and settings, from their own source."""

import ast
import json.decoder
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

import dotenv.main
import yaml.composer
import yaml.constructor
import yaml.parser
import yaml.reader
import yaml.scanner
from pydantic_core._pydantic_core import list_all_errors

_SHORTEST = 12
"""Shorter pieces of their sentences are words that anybody uses."""

_MODULES: tuple[ModuleType, ...] = (
    *(yaml.scanner, yaml.parser, yaml.composer, yaml.constructor, yaml.reader),
    *(json.decoder, dotenv.main),
)


def _raised(module: ModuleType) -> Iterator[str]:
    """The texts in what a module raises or logs."""
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
        is_log = isinstance(node, ast.Call) and ast.unparse(node.func).startswith("logger.")
        if isinstance(node, ast.Raise) or is_log:
            for each in ast.walk(node):
                if isinstance(each, ast.Constant) and isinstance(each.value, str):
                    yield each.value


@cache
def library_words() -> frozenset[str]:
    """Pieces of sentences that no operator should be shown."""
    texts = [
        *(error["message_template_python"] for error in list_all_errors()),
        *(text for module in _MODULES for text in _raised(module)),
    ]
    pieces = {piece.strip() for text in texts for piece in re.split(r"\{[^}]*\}|%[a-z]|'", text)}
    return frozenset(piece for piece in pieces if len(piece) >= _SHORTEST)


def shown_words(text: str) -> set[str]:
    """The words of libraries in a text."""
    return {words for words in library_words() if words in text}
