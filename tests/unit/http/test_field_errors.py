from typing import Any

import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from app.http.field_errors import field_errors
from app.requests.run_request import GraphRunRequest

USER = {"role": "user", "content": "hi"}


def found(**change: Any) -> dict[str, str]:
    """The errors of a request with this change, by field."""
    return found_in({"graphId": "claude_agents:assistant", "messages": [USER], **change})


def found_in(body: Any) -> dict[str, str]:
    with pytest.raises(ValidationError) as refused:
        GraphRunRequest.model_validate(body)
    details = [{**detail, "loc": ("body", *detail["loc"])} for detail in refused.value.errors()]
    errors = field_errors(RequestValidationError(details).errors(), body)
    assert len({error.field for error in errors}) == len(errors)
    return {error.field: error.message for error in errors}


def content(*parts: Any) -> dict[str, str]:
    return found(messages=[{"role": "user", "content": list(parts)}])


def test_a_field_is_named_by_its_json_path() -> None:
    assert found(limits={"maxTurns": 0, "timeoutS": "soon", "seconds": 1}) == {
        "limits.maxTurns": "must be greater than or equal to 1",
        "limits.timeoutS": "must be a number",
        "limits.seconds": "is not a field of this request",
    }


@pytest.mark.parametrize(
    "name",
    [*("seed", "stop"), *("presence_penalty", "presencePenalty", "frequency_penalty", "frequencyPenalty")],
)
def test_parameters_of_other_models_are_named_as_such(name: str) -> None:
    assert found(**{name: 1}) == {name: "is a parameter that Claude models do not take"}
    assert found(limits={name: 1}) == {f"limits.{name}": "is not a field of this request"}
    assert found(temperature=1) == {"temperature": "is not a field of this request"}


def test_a_list_is_called_so() -> None:
    assert found(files=None, clientTools={}) == dict.fromkeys(["files", "clientTools"], "must be a list")


def test_the_whole_body_is_called_body() -> None:
    assert found_in([]) == {"body": "must be an object"}


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "must be a string or a list"),
        (None, "must be a string or a list"),
        ({}, "must be a string or a list"),
        ("", "must not be blank: it has no visible character"),
        ([], "must have at least 1 item"),
    ],
)
def test_a_union_is_one_field_with_one_sentence(value: Any, message: str) -> None:
    assert found(messages=[{"role": "user", "content": value}]) == {"messages.0.content": message}


def test_a_part_is_not_reported_as_no_string() -> None:
    assert content({"type": "text"}) == {"messages.0.content.0.text": "is required"}


def test_fields_named_like_their_type_are_kept_and_tags_are_not() -> None:
    assert content({"type": "text", "text": 5}) == {"messages.0.content.0.text": "must be a string"}
    assert content({"type": "text", "text": "a", "image": 1}) == {
        "messages.0.content.0.image": "is not a field of this request"
    }
    assert content({"type": "image", "mediaType": 5, "data": "?"}) == {
        "messages.0.content.0.mediaType": "must be a string",
        "messages.0.content.0.data": "is not valid base64",
    }


def test_an_unknown_field_named_like_a_type_is_named() -> None:
    wanted = {"type": "json_schema", "json_schema": {}, "schema": {}}
    assert found(responseFormat=wanted) == {"responseFormat.json_schema": "is not a field of this request"}


def test_an_unknown_type_lists_the_known_ones() -> None:
    shown = content({"type": "top-secret"}, {"text": "no type"})
    assert shown == {
        "messages.0.content.0": "has an unknown type; known are 'text', 'image', 'document'",
        "messages.0.content.1": "needs a type",
    }


def test_several_parts_are_each_named() -> None:
    assert set(content({"type": "text"}, {"type": "text", "text": "fine"}, 5)) == {
        "messages.0.content.0.text",
        "messages.0.content.2",
    }


def test_our_own_messages_are_kept() -> None:
    assert found(messages=[{"role": "assistant", "content": "hi"}]) == {
        "messages": "the last message must be the user's"
    }
    assert found(limits={"maxBudgetUsd": 0.1}) == {
        "limits.maxBudgetUsd": 'must be a decimal in quotes, such as "0.10"'
    }
    assert found(limits={"maxBudgetUsd": "ten"}) == {"limits.maxBudgetUsd": "must be a decimal, such as 0.10"}


def test_a_long_name_is_cut() -> None:
    (field,) = found(**{"x" * 10_000: 1})
    assert len(field) == 100


def test_a_parameter_is_named_without_its_location() -> None:
    detail = {"type": "int_parsing", "loc": ("query", "limit"), "msg": "…", "input": "abc"}
    (error,) = field_errors([detail], None)
    assert (error.field, error.message) == ("limit", "must be an integer")
