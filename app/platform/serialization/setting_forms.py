"""How settings are written that have more than one value: lists with commas, and JSON."""

import json
from typing import Annotated, TypeAlias, TypeVar

from pydantic import BeforeValidator
from pydantic_settings import NoDecode

_Item = TypeVar("_Item")


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(entry.strip() for entry in value.split(",") if entry.strip())
    return value


Listed: TypeAlias = Annotated[tuple[_Item, ...], NoDecode, BeforeValidator(_split)]
"""The entries of a comma-separated list."""


def in_json(problem: str) -> BeforeValidator:
    """What a JSON text has; `problem` says what another text must be, and has nothing of it."""

    def parse(value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise ValueError(problem) from None

    return BeforeValidator(parse)
