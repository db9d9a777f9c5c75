"""Which run gave the answer that a client posts again."""

from uuid import uuid4

import pytest

from app.ids import AccountId, RunId, RunKey
from app.runs.stateless.records import GivenAnswer, LastAnswer
from app.runs.stateless.service import chat_of
from tests.factories import a_record


def given(run_id: str, text: str, *, is_last: bool) -> GivenAnswer:
    return GivenAnswer(RunId(run_id), "c", text, is_last)


@pytest.mark.parametrize(
    ("shown", "run_id"),
    [
        ("Let me look.\n\nHello. \n", "free"),
        ("Hello.", "free"),
        ("Hello", None),
        ("Bye.", "followed"),
        ("Whatever.", None),
    ],
)
def test_it_is_found_by_its_end_and_rather_one_that_nothing_follows(shown: str, run_id: str | None) -> None:
    """A client shows all texts of a run, of which the last one is stored with it."""
    answers = [
        given("empty", " ", is_last=True),
        given("earlier", "Hello.", is_last=False),
        given("free", "Hello.\n", is_last=True),
        given("followed", "Bye.", is_last=False),
    ]

    found = LastAnswer(1, "m", shown).among(answers)

    assert (found and found.run_id) == run_id


def test_a_run_without_a_conversation_is_in_no_chat() -> None:
    record = a_record(RunKey(AccountId(uuid4()), RunId("r")), state_key=None)

    assert chat_of(record).state_key == ""
