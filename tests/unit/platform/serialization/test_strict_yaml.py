import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from app.platform.serialization.strict_yaml import YamlDocument, YamlInvalid, did_you_mean


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    prompt: str = ""


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")

    description: str = ""
    parts: dict[str, Part] = {}
    steps: list[Part] = []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: [1, 2", r"line 2, column 9: a list in \[ \] is not closed"),
        ("a: 1\n  b: 2", "line 2, column 4: a colon before a space ends a key; .* indentation"),
        ("a: Use when: x", "line 1, column 12: a colon before a space ends a key; .* in quotes"),
        ("a:\n\tb: 1", "line 2, column 1: this is indented with a tab; use spaces"),
        ("a: {{b}}", "line 1, column 5: a key must be a text"),
        ("a: *b", r"line 1, column 4: \*b refers to nothing"),
        ("a: 1\n---\nb: 1", "line 2, column 1: a second document begins here"),
        (b"a: 1\nb: \xff", "line 2: is not UTF-8 text"),
        ("a: 1\nb: 2\na: 3", "line 3, column 1: duplicate key a"),
        ("a: 1\nwhen: 2026-13-45", "line 2, column 7: there is no such date or number as 2026-13-45"),
        ("a: @", "line 1, column 4: a text cannot begin with '@'; put it in quotes"),
        ("a: 1\nb: \x07", "line 2: a control character is not allowed"),
        ("[" * 5_000, "nested too deeply"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str | bytes, problem: str) -> None:
    with pytest.raises(YamlInvalid, match=problem):
        YamlDocument.read(text)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("descripton: x", "descripton: there is no such key; did you mean description? (line 5, column 1)"),
        ("zzz: 1", "zzz: there is no such key (line 5, column 1)"),
        (
            "parts:\n  a: {promt: x}",
            "parts.a.promt: there is no such key; did you mean prompt? (line 6, column 7)",
        ),
        ("steps:\n- prompt: x\n- prompt: [1]", "steps.1.prompt: must be a string (line 7, column 3)"),
        ("parts: 5", "parts: must be an object (line 5, column 1)"),
        ("description: 5", "description: must be a string; put it in quotes (line 5, column 1)"),
        ("[]", "must be an object"),
        ("", "is empty"),
    ],
)
def test_a_wrong_member_is_named_with_its_place_and_the_key_that_was_meant(text: str, problem: str) -> None:
    document = YamlDocument.read(text, first_line=5)

    with pytest.raises(ValidationError) as caught:
        Whole.model_validate(document.value)

    assert document.problems(caught.value, Whole) == [problem]


def test_an_empty_document_has_no_place() -> None:
    assert YamlDocument.read("").at(("a",), "is missing") == "is missing"


def test_only_a_similar_name_is_proposed() -> None:
    assert did_you_mean("sonet", ["opus", "sonnet"]) == "; did you mean sonnet?"
    assert did_you_mean("gpt-5", ["opus", "sonnet"]) == ""
