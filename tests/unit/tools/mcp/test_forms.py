"""What MCP servers ask, as questions, and the answers in their form."""

from typing import Any

import pytest

from app.errors import Invalid
from app.tools.mcp.asking.forms import FormUnusable, form_of


def of(schema: Any, message: str = "Well?") -> Any:
    return form_of(message, {"type": "object", "properties": {"x": schema}, "required": ["x"]})


@pytest.mark.parametrize(
    ("schema", "options", "texts", "value"),
    [
        ({"type": "string"}, [], ("any",), "any"),
        ({"type": "integer"}, [], ("-3",), -3),
        ({"type": "number"}, [], ("2.5",), 2.5),
        ({"type": "boolean"}, ["Yes", "No"], ("No",), False),
        ({"type": "string", "enum": ["a", "b"]}, ["a", "b"], ("b",), "b"),
        ({"type": "string", "enum": ["a"], "enumNames": ["A"]}, ["A"], ("A",), "a"),
        ({"type": "string", "oneOf": [{"const": "a", "title": "A"}]}, ["A"], ("A",), "a"),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, ["a", "b"], ("b", "a"), ["b", "a"]),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, ["A"], (), []),
    ],
)
def test_each_kind_of_field(schema: Any, options: list[str], texts: tuple[str, ...], value: object) -> None:
    form = of(schema)
    (question,) = form.questions

    assert (question.question, question.header) == ("Well?", "x")
    assert [option.label for option in question.options] == options
    assert question.only_options == bool(options)
    assert question.multi_select == (schema["type"] == "array")
    assert form.content((texts,)) == {"x": value}


@pytest.mark.parametrize(
    ("kind", "text"), [("integer", "3.5"), ("integer", "1_000"), ("number", "nan"), ("number", "1e400")]
)
def test_a_text_that_is_no_number_is_refused(kind: str, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        of({"type": kind}).content(((text,),))
    assert refused.value.errors[0].field == "answers.0"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {},
        None,
        {"type": "string", "enum": [1, 2]},
        {"type": "string", "enum": ["a", "a"]},
        {"type": "string", "enum": ["x" * 300 + "a", "x" * 300 + "b"]},
        {"type": "string", "enum": [str(number) for number in range(51)]},
        {"type": "string", "enum": ["a"], "enumNames": ["A", "B"]},
        {"type": "array", "items": {"type": "string"}},
        {"type": "integer", "enum": ["a"]},
    ],
)
def test_what_nobody_could_answer_is_not_asked(schema: Any) -> None:
    with pytest.raises(FormUnusable):
        of(schema)


def test_a_form_is_bounded() -> None:
    many = {f"field{number}": {"type": "string"} for number in range(21)}
    unusable: list[Any] = [{"properties": many}, {"properties": []}, {"properties": {}, "required": {}}]
    for schema in unusable:
        with pytest.raises(FormUnusable):
            form_of("Well?", schema)
    (question,) = of(
        {"type": "string", "title": "t" * 500, "description": "d" * 9_000}, "m" * 9_000
    ).questions
    assert (len(question.question), len(question.header)) == (4_000, 100)


def test_a_form_without_fields_asks_whether_to_go_on() -> None:
    form = form_of("Delete it?", {"type": "object"})
    (question,) = form.questions

    assert (question.question, [option.label for option in question.options]) == ("Delete it?", ["Yes", "No"])
    assert [form.is_refused_by(((answer,),)) for answer in ("Yes", "No")] == [False, True]
    assert form.content((("Yes",),)) == {}


def test_fields_that_are_not_required_may_be_left_out() -> None:
    form = form_of("Well?", {"properties": {"a": {"type": "string"}, "b": {"type": "integer"}}})

    assert [question.optional for question in form.questions] == [True, True]
    assert form.content((None, ("1",))) == {"b": 1}
    assert [form.field_of(path) for path in (["b"], ["c"], [])] == ["answers.1", "answers", "answers"]
