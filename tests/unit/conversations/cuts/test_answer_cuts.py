from typing import Any

import pytest

from app.conversations.cuts.answer_cuts import AnswerCuts, ShownAnswer, cut_line, text_of, without_cut
from app.conversations.neutral_transcript import api_messages, assistant_line, user_line
from app.conversations.records import TranscriptEntry
from app.ids import RunId
from tests.unit.conversations.test_neutral_transcript import a_call, a_result, text

RUN = RunId("r1")

QUESTION = user_line([text("Look it up.")])
ANSWER = [
    assistant_line([text("Let me "), text("look."), a_call("t1"), a_call("t2")], message_id="msg_1"),
    user_line([a_result("t1"), a_result("t2")], is_note=True),
    assistant_line([text("It is blue.")], message_id="msg_2"),
]


def entries(*lines: dict[str, Any], run_id: str = RUN) -> list[TranscriptEntry]:
    return [TranscriptEntry(line, run_id) for line in lines]


def heard(shown: str, *, calls: int) -> list[Any]:
    """The answer's texts and calls as the model gets them, where the client shows this of it."""
    answer = entries(QUESTION, *ANSWER)
    line = cut_line(answer, ShownAnswer.of(RUN, shown, calls=calls))
    later = entries(user_line([text("And now?")]), run_id="r2")
    messages, _ = api_messages(without_cut([*answer, TranscriptEntry(line, None), *later]))
    assert [messages[0]["content"], messages[-1]["content"]] == [[text("Look it up.")], [text("And now?")]]
    return [
        block.get("text") or block.get("id") or block.get("tool_use_id")
        for message in messages[1:-1]
        for block in message["content"]
    ]


@pytest.mark.parametrize(
    ("shown", "calls", "expected"),
    [
        ("", 0, []),
        ("Let", 0, ["Let"]),
        ("Let me ", 0, ["Let me "]),
        ("Let me lo", 0, ["Let me ", "lo"]),
        ("Let me look.", 0, ["Let me ", "look."]),
        ("Let me look.", 1, ["Let me ", "look.", "t1", "t1"]),
        ("Let me look.", 2, ["Let me ", "look.", "t1", "t2", "t1", "t2"]),
        ("Let me look.It is", 2, ["Let me ", "look.", "t1", "t2", "t1", "t2", "It is"]),
        # An application may leave out tool calls of what it shows.
        ("Let me look.It is", 0, ["Let me ", "look.", "t1", "t2", "t1", "t2", "It is"]),
    ],
)
def test_an_answer_ends_where_its_client_has_stopped_reading(
    shown: str, calls: int, expected: list[str]
) -> None:
    assert heard(shown, calls=calls) == expected


@pytest.mark.parametrize(
    ("shown", "lacks"),
    [
        ("", True),
        ("Let me look.It", True),
        ("Let me look.It is blue.", False),
        ("Let me look.It is blue. ", False),
        ("Something else", False),
        ("Let me look.It is blue. And more.", False),
    ],
)
def test_only_the_beginning_of_an_answer_is_cut(shown: str, *, lacks: bool) -> None:
    answer = ShownAnswer.of(RUN, shown, calls=0)

    assert answer.lacks_some_of(text_of(entries(QUESTION, *ANSWER)) + "\n") == lacks


def test_lines_of_the_cli_end_with_the_last_block_that_is_shown() -> None:
    def line(number: int, *content: dict[str, Any], **fields: Any) -> dict[str, Any]:
        message = {"id": "msg_1", "model": "m", "content": list(content)}
        return {"type": "assistant", "uuid": f"l{number}", "message": message, **fields}

    lines = [
        {**QUESTION, "uuid": "l0"},
        line(1, {"type": "thinking", "thinking": "Hm.", "signature": "s"}),
        line(2, text("aside"), isSidechain=True),
        line(3, text("One two")),
        line(4, a_call("t1")),
        {**user_line([a_result("t1")]), "uuid": "l5"},
        {"type": "queue-operation", "operation": "dequeue"},
        line(6, text("three")),
    ]
    kept = {
        shown: [
            entry.line.get("uuid") or entry.line["type"]
            for entry in without_cut(
                [*entries(*lines), TranscriptEntry(cut_line(entries(*lines), shown), None)]
            )
        ]
        for shown in (
            ShownAnswer.of(RUN, "One", calls=0),
            ShownAnswer.of(RUN, "One two", calls=1),
            ShownAnswer.of(RUN, "", calls=0),
        )
    }

    assert list(kept.values()) == [
        ["l0", "l1", "l2", "l3", "queue-operation"],
        ["l0", "l1", "l2", "l3", "l4", "l5", "queue-operation"],
        ["l0", "queue-operation"],
    ]


def test_pages_know_the_cuts_of_the_whole_transcript_and_the_last_of_a_run_counts() -> None:
    answer = entries(QUESTION, *ANSWER)
    lines = [cut_line(answer, ShownAnswer.of(RUN, shown, calls=2)) for shown in ("Let", "Let me look.It is")]

    cut = AnswerCuts(lines).applied_to(answer[3:])

    assert text_of(cut) == "It is"
    assert text_of(AnswerCuts(lines[:1]).applied_to(answer)) == "Let"
    assert text_of(answer) == "Let me look.It is blue."
