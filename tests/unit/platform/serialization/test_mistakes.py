import pytest
from pydantic_core._pydantic_core import list_all_errors

from app.platform.serialization.mistakes import mistakes_in, problem_of
from tests.library_words import shown_words

ERRORS = {str(each["type"]): each for each in list_all_errors()}
OURS = {"value_error", "assertion_error"}


@pytest.mark.parametrize("kind", sorted(ERRORS))
def test_every_error_of_the_library_has_a_sentence_of_ours(kind: str) -> None:
    error = ERRORS[kind]
    detail = {
        "type": kind,
        "loc": ("field",),
        "msg": error["example_message_python"],
        "ctx": error["example_context"],
    }

    sentence = problem_of(detail)

    assert sentence.startswith(("must ", "is ", "has ", "needs ", "contains ")) or kind in OURS
    assert shown_words(sentence) == set()
    # A validator of a later release may leave it out, or name other values.
    if kind not in OURS:
        assert shown_words(problem_of({**detail, "type": f"new_{kind}"})) == set()


def test_one_is_not_written_in_the_plural() -> None:
    detail = {"type": "too_short", "loc": (), "ctx": {"min_length": 1}}

    assert problem_of(detail) == "must have at least 1 item"
    assert problem_of({**detail, "ctx": {"min_length": 11}}) == "must have at least 11 items"


def test_a_name_is_told_from_its_value() -> None:
    detail = {"type": "string_too_long", "loc": ("a", "b c", "[key]"), "ctx": {"max_length": 2}}

    (mistake,) = mistakes_in([detail], {"a": {"b c": 1}})

    assert (mistake.path, mistake.problem) == (("a", "b c"), "its name must have at most 2 characters")
