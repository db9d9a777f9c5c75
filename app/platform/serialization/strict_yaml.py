"""YAML files of operators: read strictly, with the line and column of each mistake."""

import difflib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from app.platform.serialization.mistakes import UNKNOWN, Mistake, mistakes_in
from app.platform.serialization.yaml_problems import sentence_of

_CLOSE = 0.7
_NESTED_TOO_DEEPLY = "it is nested too deeply"


class StrictModel(BaseModel):
    """What a file of operators has; an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class YamlInvalid(Exception):
    """The text is not YAML, or a value is ambiguous; the text names line, column and reason."""


class StrictYamlLoader(yaml.SafeLoader):
    """Refuses duplicate keys: PyYAML would silently use the last value."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - the loader's signature
    ) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        problem=f"duplicate key {key.value}", problem_mark=key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        """See the loader; with the place of a date or a tagged value that does not exist."""
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError) as error:
            raise yaml.constructor.ConstructorError(
                problem=f"there is no such date or number as {str(node.value)[:40]}",
                problem_mark=node.start_mark,
            ) from error


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """The value of a YAML text, and where its parts are."""

    value: Any
    _root: yaml.Node | None
    _first_line: int

    @classmethod
    def read(cls, text: str | bytes, *, first_line: int = 1) -> "YamlDocument":
        """Parse the text; raises `YamlInvalid`. `first_line` is its line in the file."""
        try:
            loader = StrictYamlLoader(decoded(text))
            root = loader.get_single_node()
            value = None if root is None else loader.construct_document(root)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = "" if mark is None else f"{_place(mark, first_line)}: "
            raise YamlInvalid(f"{where}{sentence_of(error)}") from error
        except yaml.reader.ReaderError as error:
            line = first_line + decoded(text)[: error.position].count("\n")
            raise YamlInvalid(f"line {line}: {sentence_of(error)}") from error
        except RecursionError as error:
            raise YamlInvalid(_NESTED_TOO_DEEPLY) from error
        return cls(value, root, first_line)

    def at(self, path: Sequence[str | int], problem: str) -> str:
        """The problem with line and column of a member, or of the last part of the path that exists."""
        node, mark = self._root, None if self._root is None else self._root.start_mark
        for part in path:
            found = _member(node, part)
            if found is None:
                break
            mark, node = found
        return problem if mark is None else f"{problem} ({_place(mark, self._first_line)})"

    def problems(self, error: ValidationError, model: type[BaseModel]) -> list[str]:
        """Each mistake: the key, what is wrong, and the place; `model` is the form of the whole document."""
        mistakes = mistakes_in(error.errors(include_input=False), self.value)
        return [self._explained(mistake, model) for mistake in mistakes]

    def _explained(self, mistake: Mistake, model: type[BaseModel]) -> str:
        path, problem, kind = mistake
        if kind == UNKNOWN:
            problem = f"there is no such key{did_you_mean(str(path[-1]), _keys(model, nested=len(path) > 1))}"
        elif kind == "string_type" and not isinstance(self._value_at(path), list | dict):
            problem += "; put it in quotes"
        if not path:
            return "is empty" if self.value is None else problem
        return self.at(path, f"{'.'.join(map(str, path))}: {problem}")

    def _value_at(self, path: Sequence[str | int]) -> Any:
        value = self.value
        for part in path:
            value = value[part]
        return value


def decoded(text: str | bytes) -> str:
    """The text without a byte order mark; raises `YamlInvalid`."""
    if isinstance(text, str):
        return text.removeprefix("\ufeff")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text[: error.start].count(b"\n") + 1
        raise YamlInvalid(f"line {line}: is not UTF-8 text; save the file as UTF-8") from error


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The known name that is most like this one, as the end of a sentence; empty if there is none."""
    close = difflib.get_close_matches(name, list(known), 1, _CLOSE)
    return f"; did you mean {close[0]}?" if close else ""


def _member(node: yaml.Node | None, part: str | int) -> tuple[yaml.Mark, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        found = [(key.start_mark, value) for key, value in node.value if key.value == str(part)]
        return found[0] if found else None
    if isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
        return node.value[part].start_mark, node.value[part]
    return None


def _place(mark: yaml.Mark, first_line: int) -> str:
    return f"line {mark.line + first_line}, column {mark.column + 1}"


@cache
def _keys(model: type[BaseModel], *, nested: bool) -> set[str]:
    """The keys of a file of this form; `nested`: those of all its parts."""
    schema = model.model_json_schema()
    parts = schema.get("$defs", {}).values() if nested else [schema]
    return {name for part in parts for name in part.get("properties", ())}
