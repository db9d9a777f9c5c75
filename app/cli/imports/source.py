"""Reads files of other programs."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app.errors import OperatorError
from app.platform.serialization.strict_yaml import YamlInvalid, decoded


class NotImportable(OperatorError):
    """A file cannot be imported; the text names it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


def read_source(path: Path) -> str:
    """The text of a file; raises `NotImportable`."""
    try:
        return decoded(path.read_bytes())
    except OSError as error:
        raise NotImportable(path, f"cannot be read: {error.strerror}") from error
    except YamlInvalid as error:
        raise NotImportable(path, str(error)) from error


def read_json(path: Path) -> Any:
    """The value of a JSON file; raises `NotImportable`."""
    try:
        return json.loads(read_source(path), object_pairs_hook=_distinct)
    except json.JSONDecodeError as error:
        problem = "is not valid JSON: look for a comma, a quote or a comment before it"
        raise NotImportable(path, f"line {error.lineno}, column {error.colno}: {problem}") from error
    except ValueError as error:
        raise NotImportable(path, "has a number that is too large") from error
    except KeyError as error:
        raise NotImportable(path, f"has the key {error.args[0]!r} twice in one object") from error
    except RecursionError as error:
        raise NotImportable(path, "is nested too deeply") from error


def _distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise KeyError(key)
        found[key] = value
    return found
