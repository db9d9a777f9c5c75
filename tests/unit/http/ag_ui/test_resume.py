from typing import Any, Literal

import pytest

from app.errors import Invalid
from app.http.ag_ui.input import ANSWERS, DECISION, parse_payload
from app.http.ag_ui.resume import AnswerToInterrupt, distinct_answers
from app.runs.commands.records import Decide


def an_answer(index: int, request_id: str, decision: Literal["allow", "deny"] | None) -> AnswerToInterrupt:
    decide = None if decision is None else Decide(request_id=request_id, decision=decision)
    return AnswerToInterrupt(index, request_id, decide)


def test_an_answer_that_is_posted_a_thousand_times_is_applied_once() -> None:
    allowed = [an_answer(index, "a", "allow") for index in range(1_000)]
    cancelled = [an_answer(1_000 + index, "b", None) for index in range(1_000)]
    differing = an_answer(2_000, "a", "deny")
    late = an_answer(2_001, "a", None)

    found = list(distinct_answers([*allowed, *cancelled, differing, late]))

    assert [answer.index for answer in found] == [0, 1_000, 2_000]


@pytest.mark.parametrize(
    ("payload", "form", "field"),
    [
        (None, DECISION, "resume.2.payload"),
        ({"approved": "yes"}, DECISION, "resume.2.payload.approved"),
        (None, ANSWERS, "resume.2.payload"),
        ({"answers": "Red"}, ANSWERS, "resume.2.payload.answers"),
    ],
)
def test_a_payload_that_is_wrong_is_named(payload: Any, form: Any, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        parse_payload(2, payload, form)
    assert [error.field for error in refused.value.errors] == [field]
