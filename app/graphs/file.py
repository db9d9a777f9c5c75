"""GraphFile: a Markdown file with a graph, and the places of its mistakes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from app.errors import OperatorError
from app.graphs.spec import GraphSpec
from app.platform.serialization.front_matter import FENCE, FrontMatter, FrontMatterInvalid
from app.platform.serialization.strict_yaml import YamlDocument

_FORM = (
    f"a graph begins with a line {FENCE}, its keys (description: …), a line {FENCE}, then its prompt; files "
    "that are no graphs belong elsewhere"
)
_OF_FILE = {
    "name": "is the name of the file",
    "system_prompt": "is the text after the front matter, before which prompt_preset can put another",
}
"""The fields of a graph that are no keys."""


class GraphDefinitionError(OperatorError):
    """A graph file is invalid; the text names the file and the key."""


@dataclass(frozen=True, slots=True)
class GraphFile:
    """The front matter and the prompt of a file."""

    path: Path
    document: YamlDocument
    prompt: str

    @classmethod
    def read(cls, path: Path) -> "GraphFile":
        """Read a file; raises `GraphDefinitionError`."""
        try:
            return cls.parse(path, path.read_bytes())
        except OSError as error:
            raise definition_error(path, f"file: cannot be read: {error.strerror}") from error

    @classmethod
    def parse(cls, path: Path, content: bytes) -> "GraphFile":
        """Read the content of a file; raises `GraphDefinitionError`."""
        try:
            found = FrontMatter.parse(content, form=_FORM)
        except FrontMatterInvalid as error:
            raise definition_error(path, str(error)) from error
        return cls(path, found.document, found.text)

    @property
    def head(self) -> dict[str, Any]:
        """The keys of the front matter."""
        return self.document.value or {}

    def graph(self) -> tuple[GraphSpec | None, list[GraphDefinitionError]]:
        """The graph, or what is wrong with the file."""
        if reserved := [name for name in _OF_FILE if name in self.head]:
            return None, [
                self.error((name,), f"{name}: {_OF_FILE[name]}, so it must not be in the front matter")
                for name in reserved
            ]
        if not self.prompt:
            return None, [
                definition_error(self.path, "has no text after the front matter: its system prompt")
            ]
        try:
            values = {**self.head, "name": self.path.stem, "system_prompt": self.prompt}
            return GraphSpec.model_validate(values), []
        except ValidationError as error:
            problems = self.document.problems(error, GraphSpec)
            return None, [definition_error(self.path, problem) for problem in problems]

    def error(self, keys: tuple[str | int, ...], problem: str) -> GraphDefinitionError:
        """The error about a member of the front matter, with its place."""
        return definition_error(self.path, self.document.at(keys, problem))


def definition_error(path: Path, problem: str) -> GraphDefinitionError:
    return GraphDefinitionError(f"graph file {path.name}: {problem}")
