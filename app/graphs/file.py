"""GraphFile: a Markdown file with a graph, and the places of its mistakes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from frontmatter.default_handlers import YAMLHandler
from pydantic import ValidationError

from app.errors import OperatorError
from app.graphs.spec import GraphSpec
from app.platform.serialization.strict_yaml import YamlDocument, YamlInvalid, decoded

_FENCE = "---"
_FORM = f"a graph begins with a line {_FENCE}, its keys (description: …), a line {_FENCE}, then its prompt"
_OF_FILE = {"name": "is the name of the file", "system_prompt": "is the text after the front matter"}
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
        handler = YAMLHandler()
        try:
            whole = decoded(content).replace("\r\n", "\n")
            text = whole.strip()
            if not handler.detect(text):
                problem = f"has no front matter: {_FORM}; files that are no graphs belong elsewhere"
                raise definition_error(path, problem)
            source, prompt = handler.split(text)
            first_line = 1 + whole[: whole.index(source)].count("\n")
            document = YamlDocument.read(source, first_line=first_line)
        except YamlInvalid as error:
            problem = f"front matter: is not valid YAML between two lines of {_FENCE}: {error}"
            raise definition_error(path, problem) from error
        except ValueError as error:
            raise definition_error(path, f"front matter: has no second line {_FENCE}: {_FORM}") from error
        if not isinstance(document.value or {}, dict):
            raise definition_error(path, "front matter: must be keys and values, such as description: …")
        return cls(path, document, prompt.strip())

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
    """The error about a file."""
    return GraphDefinitionError(f"graph file {path.name}: {problem}")
