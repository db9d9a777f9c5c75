"""Form: what an MCP server asks, as questions, and their answers as its schema describes them; pure."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from app.errors import Invalid
from app.events import GivenAnswers, QuestionItem, QuestionOption
from app.storable import storable
from app.tools.mcp.text import one_line

_MOST_FIELDS = 20
_MOST_OPTIONS = 50
_MAX_TEXT_CHARS = 4_000
_MAX_LABEL_CHARS = 200
_MAX_HEADER_CHARS = 100
_YES, _NO = "Yes", "No"
_INTEGER = re.compile(r"-?[0-9]{1,15}")
_NUMBER = re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")

Value: TypeAlias = str | int | float | bool | list[str] | None
Content: TypeAlias = dict[str, Value]


class FormUnusable(Exception):
    """A person cannot be asked for what the schema describes; the text says why."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    """Of the property."""
    question: QuestionItem
    value: Callable[[Sequence[str]], Value]
    """Of texts that answer it; raises `ValueError` with what it must be."""


@dataclass(frozen=True, slots=True)
class Form:
    """What a server asks."""

    schema: dict[str, Any]
    fields: Sequence[_Field]
    message: str

    @property
    def questions(self) -> list[QuestionItem]:
        """One for each property; of a form without, whether to go on."""
        if self.fields:
            return [each.question for each in self.fields]
        return [_item(self.message, options=[_YES, _NO])]

    def is_refused_by(self, answers: GivenAnswers) -> bool:
        """Whether the person does not want to go on."""
        return not self.fields and answers == ((_NO,),)

    def content(self, answers: GivenAnswers) -> Content:
        """The answers as the server expects them; raises `Invalid` for those that cannot be that."""
        content: Content = {}
        for index, (each, texts) in enumerate(zip(self.fields, answers, strict=False)):
            if texts is None:
                continue
            try:
                content[each.name] = each.value(texts)
            except ValueError as error:
                raise Invalid.field(f"answers.{index}", str(error)) from error
        return content

    def field_of(self, path: Sequence[str]) -> str:
        """The field of a client's answers for a place in the content."""
        names = [each.name for each in self.fields]
        return f"answers.{names.index(path[0])}" if path and path[0] in names else "answers"


def form_of(message: str, schema: dict[str, Any]) -> Form:
    """The form that a server has sent; raises `FormUnusable`."""
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise FormUnusable("its schema is none of a form")
    if len(properties) > _MOST_FIELDS:
        raise FormUnusable(f"it has more than {_MOST_FIELDS} fields")
    message = _text(message) or "May it go on?"
    fields = [
        _field(name, described, optional=name not in required, before=message if index == 0 else "")
        for index, (name, described) in enumerate(properties.items())
    ]
    return Form(schema, fields, message)


def _field(name: str, schema: Any, *, optional: bool, before: str) -> _Field:
    """`before`: the server's message, which comes before the first question."""
    if not isinstance(schema, dict):
        raise FormUnusable("a field has no schema")
    title = one_line(str(schema.get("title") or name), _MAX_HEADER_CHARS)
    described = schema.get("description")
    text = _text("\n\n".join(filter(None, [before, described if isinstance(described, str) else ""])))
    kind = schema.get("type")
    values = {_YES: "", _NO: ""} if kind == "boolean" else _options(schema)
    value: Callable[[Sequence[str]], Value]
    if values is not None and kind in {"string", "array"}:
        value = _Chosen(values, several=kind == "array")
    elif kind in _OF_TEXT and (values is None or kind == "boolean"):
        value = _OF_TEXT[kind]
    else:
        raise FormUnusable("a field is no text, number, choice or yes and no")
    question = _item(
        text or title, options=list(values or ()), header=title, several=kind == "array", optional=optional
    )
    return _Field(name, question, value)


def _item(
    text: str, *, options: Sequence[str], header: str = "", several: bool = False, optional: bool = False
) -> QuestionItem:
    return QuestionItem(
        question=text,
        header=header or None,
        options=tuple(QuestionOption(label=label) for label in options),
        multi_select=several,
        only_options=bool(options),
        optional=optional,
    )


def _options(schema: dict[str, Any]) -> dict[str, str] | None:
    """The values to choose from by their labels; None for a field that is no choice."""
    items = schema.get("items") if schema.get("type") == "array" else schema
    if not isinstance(items, dict):
        return None
    names: Any
    titled = items.get("oneOf") or items.get("anyOf")
    if isinstance(titled, list):
        choices = [each if isinstance(each, dict) else {} for each in titled]
        values = [each.get("const") for each in choices]
        names = [each.get("title", each.get("const")) for each in choices]
    elif isinstance(items.get("enum"), list):
        values = items["enum"]
        names = items.get("enumNames") or values
    else:
        return None
    if not isinstance(names, list) or len(names) != len(values) or len(values) > _MOST_OPTIONS:
        raise FormUnusable(f"a choice is not one of up to {_MOST_OPTIONS} texts")
    labels = [one_line(str(name), _MAX_LABEL_CHARS) for name in names]
    if not all(isinstance(value, str) for value in values) or not all(labels):
        raise FormUnusable("a choice has options that are no texts")
    if len(set(labels)) < len(labels):
        raise FormUnusable("a choice has the same option twice")
    return dict(zip(labels, map(str, values), strict=True))


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The values of options."""

    values: dict[str, str]
    several: bool

    def __call__(self, texts: Sequence[str]) -> Value:
        """The values of these labels, or of a single one."""
        chosen = [self.values[text] for text in texts]
        return chosen if self.several else chosen[0]


def _boolean(texts: Sequence[str]) -> Value:
    return texts[0] == _YES


def _string(texts: Sequence[str]) -> Value:
    return texts[0]


def _integer(texts: Sequence[str]) -> Value:
    if not _INTEGER.fullmatch(texts[0]):
        raise ValueError("must be a whole number")
    return int(texts[0])


def _number(texts: Sequence[str]) -> Value:
    if not _NUMBER.fullmatch(texts[0]):
        raise ValueError("must be a number such as 2.5")
    return float(texts[0])


_OF_TEXT: Final[dict[Any, Callable[[Sequence[str]], Value]]] = {
    "boolean": _boolean,
    "string": _string,
    "integer": _integer,
    "number": _number,
}


def _text(text: str) -> str:
    return storable(text[:_MAX_TEXT_CHARS]).strip()
