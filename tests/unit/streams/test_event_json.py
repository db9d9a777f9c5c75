"""Events are written the same everywhere, whatever they contain."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from app.events import AssistantFinal, ClientEvent, TextDelta, ToolCallResult, ToolCallStart
from app.streams.event_json import from_json, to_json

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def test_the_type_comes_first_and_names_are_camel_case() -> None:
    event = TextDelta(message_id="m", delta="é\U0001f600", parent_tool_call_id="p")
    line = r'{"type":"text_delta","parentToolCallId":"p","messageId":"m","delta":"\u00e9\ud83d\ude00"}'
    assert to_json(event) == line


def test_a_field_of_a_later_release_is_passed_over() -> None:
    assert from_json('{"type":"assistant_final","content":"hi","later":1}') == AssistantFinal(content="hi")


def test_an_absent_parent_is_left_out_and_an_absent_answer_is_null() -> None:
    assert to_json(AssistantFinal(content="hi")) == (
        '{"type":"assistant_final","content":"hi","structuredOutput":null}'
    )


@given(values, st.text())
def test_events_survive_and_are_written_on_one_line_of_ascii(value: JsonValue, text: str) -> None:
    for event in (
        ToolCallStart(tool_call_id="t", tool_name=text, args={"value": value}),
        AssistantFinal(content=text, structured_output=value),
        TextDelta(message_id=text, delta=text),
    ):
        line = to_json(event)
        assert line.isascii()
        assert line.splitlines() == [line]
        assert from_json(line) == event
        assert to_json(from_json(line)) == line


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_json_does_not_have_becomes_null(number: float) -> None:
    event = ToolCallResult(tool_call_id="t", result={"mean": [number]}, is_error=False)
    assert json.loads(to_json(event))["result"] == {"mean": [None]}


@given(st.text(st.characters(categories=["Cs"]) | st.sampled_from("aé\U0001f600"), max_size=8))
def test_half_a_character_is_replaced_and_lengths_stay(text: str) -> None:
    events: list[ClientEvent] = [
        TextDelta(message_id="m", delta=text),
        ToolCallStart(tool_call_id="t", tool_name="n", args={text: [text]}),
        AssistantFinal(content="x", structured_output={"deep": (text,)}),
    ]
    clean = "".join("\ufffd" if "\ud800" <= character <= "\udfff" else character for character in text)
    delta, call, final = (json.loads(to_json(event)) for event in events)
    assert delta["delta"] == clean
    assert call["args"] == {clean: [clean]}
    assert final["structuredOutput"] == {"deep": [clean]}
