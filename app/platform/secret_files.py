"""Secrets that are elsewhere: NAME_FILE has the path of the file that contains NAME."""

import shlex
from collections.abc import Collection, Mapping
from pathlib import Path


def read_secret_files(
    names: Collection[str], variables: Mapping[str, str | None]
) -> tuple[dict[str, str], list[str]]:
    """The values by name, and what is wrong: each a variable and a sentence without the value."""
    found, problems = dict[str, str](), list[str]()
    for name in names:
        if not (path := variables.get(f"{name}_FILE")):
            continue
        try:
            if variables.get(name):
                raise ValueError(f"{name} is set, too; unset one of them")  # noqa: TRY301
            found[name] = read_secret(Path(path))
        except ValueError as error:
            problems.append(f"{name}_FILE: {error}")
    return found, problems


def split_command(command: str) -> list[str]:
    """The words of a command that prints a secret, as a shell splits them; raises `ValueError`."""
    try:
        words = shlex.split(command)
    except ValueError:
        raise ValueError("must be a command whose quotation marks are closed") from None
    if not words:
        raise ValueError("must be a command")
    return words


def read_secret(path: Path) -> str:
    """A file's text without the line break at its end; raises `ValueError` with a sentence."""
    try:
        text = path.read_text("utf-8").rstrip("\r\n")
    except OSError as error:
        raise ValueError(f"the file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"the file {path} is not UTF-8 text") from None
    if not text:
        raise ValueError(f"the file {path} is empty")
    return text
