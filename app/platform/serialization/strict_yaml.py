"""YAML files of operators: read strictly, with the line and column of each mistake."""

import difflib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from pydantic import BaseModel

_CLOSE = 0.7
_NESTED_TOO_DEEPLY = "it is nested too deeply"


class YamlInvalid(Exception):
    """The text is not YAML, or a value is ambiguous; the text names line, column and reason."""


class StrictYamlLoader(yaml.SafeLoader):
    """Refuses duplicate keys: PyYAML would silently use the last value."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - the loader's signature
    ) -> dict[Hashable, Any]:
        """See the loader."""
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
        """See the loader; with the place of a date that does not exist."""
        try:
            return super().construct_object(node, deep)
        except ValueError as error:
            raise yaml.constructor.ConstructorError(
                problem=str(error), problem_mark=node.start_mark
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
            loader = StrictYamlLoader(text)
            root = loader.get_single_node()
            value = None if root is None else loader.construct_document(root)
        except yaml.MarkedYAMLError as error:
            mark, problem = error.problem_mark or error.context_mark, error.problem or str(error.context)
            where = "" if mark is None else f"{_place(mark, first_line)}: "
            raise YamlInvalid(f"{where}{problem}") from error
        except (yaml.YAMLError, ValueError) as error:
            raise YamlInvalid(str(error).partition("\n")[0]) from error
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

    def explain(self, detail: Any, model: type[BaseModel]) -> str:
        """A mistake that Pydantic has found: its key, what is wrong, and its place."""
        path = [part for part in detail["loc"] if part != "[key]"]
        problem = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            problem = f"there is no such key{did_you_mean(str(path[-1]), _keys(model, nested=len(path) > 1))}"
        key = ".".join(str(part) for part in path)
        return self.at(path, f"{key}: {problem}" if key else problem)


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


def _keys(model: type[BaseModel], *, nested: bool) -> set[str]:
    """The keys of a file of this form; `nested`: those of all its parts."""
    schema = model.model_json_schema()
    parts = schema.get("$defs", {}).values() if nested else [schema]
    return {name for part in parts for name in part.get("properties", ())}
