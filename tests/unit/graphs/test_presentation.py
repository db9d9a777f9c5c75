"""The keys of a graph for people, and the schemas of its input and its answers."""

from pathlib import Path

import pytest

from app.graphs.presentation import Suggestion
from tests.unit.graphs.test_catalog import HEAD, fault, load

INPUT = "input: {type: object, properties: {topic: {type: string}}, required: [topic]}"


def test_people_get_a_title_an_icon_and_what_to_begin_with(tmp_path: Path) -> None:
    suggestions = '["What is new?", {title: Answer, message: "Answer\\nall."}]'
    shown = f"title: Mail helper\nicon: 📬\nsuggestions: {suggestions}"

    spec = load(tmp_path, f"{HEAD}\n{shown}")

    assert (spec.shown_title, spec.icon) == ("Mail helper", "📬")
    assert spec.suggestions == (
        Suggestion(title="What is new?", message="What is new?"),
        Suggestion(title="Answer", message="Answer\nall."),
    )


def test_a_graph_without_a_title_is_shown_by_its_name(tmp_path: Path) -> None:
    assert load(tmp_path, HEAD, name="invoice-reader_2.md").shown_title == "Invoice reader 2"


@pytest.mark.parametrize("icon", ["👩‍🔬", "🇩🇪", "✅", "☎️"])
def test_an_icon_is_an_emoji_of_several_characters_too(tmp_path: Path, icon: str) -> None:
    assert load(tmp_path, f"{HEAD}\nicon: {icon}").icon == icon


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("title: ' '", "title: must not be blank"),
        ('title: "a\\nb"', "title: must be one line of printable characters"),
        ('title: "a\\u202Eb"', "title: must be one line of printable characters"),
        (f"title: {'x' * 61}", "title: must have at most 60 characters"),
        ("icon: <b>", "icon: must be an emoji"),
        ("icon: https://example.org/a.png", "icon: must be an emoji"),
        ("icon: robot", "icon: must be an emoji"),
        ('icon: ""', "icon: must be an emoji"),
        ("suggestions: hello", "suggestions: must be a list"),
        ("suggestions: [a, b, c, d, e, f, g, h, i]", "suggestions: must have at most 8 items"),
        ("suggestions: [{title: a}]", "suggestions.0.message: is required"),
        ("suggestions: [{title: a, message: b, icon: c}]", "suggestions.0.icon"),
        ("input: topic", "input: must be a JSON schema"),
        ("input: {type: string}", "input: must be the JSON schema of an object"),
        ("input: {type: object}", "input: must be the JSON schema of an object"),
        ("input: {type: object, properties: {conversation: {}}}", "must have no property 'conversation'"),
        ("input: {type: object, properties: {a: {type: strnig}}}", "properties.a.type"),
        ("input: {type: object, properties: {a: {$ref: 'https://example.org'}}}", "#/properties/a/$ref"),
        ("output: {type: strnig}", "output: is not a JSON schema that can be used: type"),
        ("output: {type: object, description: $DESCRIPTION}", "is too large after conversion for the model"),
    ],
)
def test_what_cannot_be_shown_or_checked_is_refused(tmp_path: Path, key: str, problem: str) -> None:
    assert problem in fault(tmp_path, f"{HEAD}\n{key.replace('$DESCRIPTION', 'x' * 100_000)}")


def test_the_prompt_says_which_input_there_is(tmp_path: Path) -> None:
    prompt = load(tmp_path, f"{HEAD}\n{INPUT}").system_prompt

    assert prompt.startswith("You help.\n\n")
    assert prompt.endswith(
        '{"type": "object", "properties": {"topic": {"type": "string"}}, "required": ["topic"]}'
    )
    assert load(tmp_path, HEAD).system_prompt == "You help."


def test_schemas_of_older_drafts_are_shown_in_todays_form(tmp_path: Path) -> None:
    older = (
        "{$schema: 'http://json-schema.org/draft-07/schema#', type: object, "
        "properties: {pair: {type: array, items: [{type: string}, {type: integer}]}}}"
    )

    spec = load(tmp_path, f"{HEAD}\ninput: {older}")

    assert spec.input is not None
    assert spec.input.plain["properties"]["pair"] == {
        "type": "array",
        "prefixItems": [{"type": "string"}, {"type": "integer"}],
    }
