"""What is read from a posted chat."""

from typing import Any

from app.http.openai.history import PostedHistory
from app.http.openai.messages import PostedMessage
from app.http.openai.notice import Notice, notice, split_notice

WAITS = notice("the tool x needs approval", "http://h/approvals", Notice("r-1", 7))


def history(*messages: tuple[str, Any]) -> PostedHistory:
    return PostedHistory.of([PostedMessage(role=role, content=text) for role, text in messages])


def texts(found: PostedHistory) -> list[tuple[str, str]]:
    return [(turn.role, turn.message.text) for turn in found.turns]


def test_all_that_was_answered_to_a_message_is_one_turn() -> None:
    call = PostedMessage(role="assistant", content="Wait.")
    result = PostedMessage(role="tool", content="blue", tool_call_id="r-1--c")
    rest = [PostedMessage(role="assistant", content="Blue."), PostedMessage(role="user", content="Sure?")]
    asked = [PostedMessage(role="system", content="Be brief."), PostedMessage(role="user", content="Color?")]

    found = PostedHistory.of([*asked, call, result, *rest])

    assert texts(found) == [("user", "Color?"), ("assistant", "Wait.\n\nBlue."), ("user", "Sure?")]
    assert (found.last_answer, found.results) == (1, {})
    assert PostedHistory.of([*asked, call, result]).results == {"r-1--c": "blue"}


def test_ids_are_those_of_the_same_history() -> None:
    first = history(("user", "a"), ("assistant", "b"), ("user", "c"))
    longer = history(("user", "a"), ("assistant", " b\n"), ("user", "c"), ("assistant", "d"), ("user", "c"))
    other = history(("user", "a"), ("assistant", "x"), ("user", "c"))

    ids = [turn.id for turn in longer.turns]
    assert [turn.id for turn in first.turns] == ids[:3]
    assert len(set(ids)) == 5
    assert other.turns[0].id == ids[0]
    assert other.turns[2].id != ids[2]


def test_a_notice_and_the_message_that_goes_on_are_no_part_of_it() -> None:
    begun = (("user", "Write."), ("assistant", f"I write.\n\n{WAITS}"), ("user", "Go on."))
    going_on, gone_on = history(*begun), history(*begun, ("assistant", "Sent."), ("user", "Thanks."))

    assert going_on.waiting == Notice("r-1", 7)
    assert texts(going_on) == [("user", "Write."), ("assistant", "I write.")]
    assert gone_on.waiting is None
    assert texts(gone_on) == [*(("user", "Write."), ("assistant", "I write.\n\nSent.")), ("user", "Thanks.")]
    assert [turn.id for turn in gone_on.turns[:1]] == [turn.id for turn in going_on.turns[:1]]


def test_only_the_end_of_a_text_is_a_notice() -> None:
    for text in (f"{WAITS} and more", WAITS[:-1], WAITS.replace("#7", "#"), WAITS.replace("r-1", "r/1")):
        assert split_notice(text) == (text, None)
    # Takes no longer for a text that is made to take long.
    hostile = "[Waiting for a person: " * 20_000 + " " * 200_000 + "]"
    assert split_notice(hostile) == (hostile, None)
