import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.history_merge import HistoryConflict, new_messages
from app.conversations.messages import ConversationMessage, MessageType
from app.requests.messages import Message

WORDS = st.text("abc ", min_size=1).filter(str.strip)
CONVERSATIONS = st.lists(st.tuples(WORDS, st.lists(WORDS, min_size=1, max_size=3)), max_size=4)


@given(CONVERSATIONS, st.data())
def test_the_end_of_a_conversation_is_recognised(
    turns: list[tuple[str, list[str]]], data: st.DataObject
) -> None:
    """However much of it a client posts, with all texts of an agent's turn or only the last."""
    kept = data.draw(st.integers(0, len(turns)))
    posted: list[Message] = []
    for question, answers in turns[len(turns) - kept :]:
        answer = data.draw(st.sampled_from(["".join(answers), answers[-1], "\n\n".join(answers)]))
        posted += [a_message("user", question), a_message("assistant", answer)]
    new = a_message("user", "new")

    assert new_messages([*posted, new], conversation_of(turns)) == [new]


@given(CONVERSATIONS.filter(bool), WORDS)
def test_one_more_word_is_a_conflict(turns: list[tuple[str, list[str]]], word: str) -> None:
    question, answers = turns[-1]
    posted = [
        a_message("user", question + word),
        a_message("assistant", answers[-1]),
        a_message("user", "new"),
    ]

    with pytest.raises(HistoryConflict):
        new_messages(posted, conversation_of(turns))


def test_system_messages_are_always_new() -> None:
    system, new = a_message("system", "Be brief."), a_message("user", "new")
    posted = [system, a_message("user", "hi"), a_message("assistant", "ho"), new]

    assert new_messages(posted, conversation_of([("hi", ["ho"])])) == [system, new]


@pytest.mark.parametrize("answer", ["one two", "one", "one two three"])
def test_the_beginning_of_a_text_that_was_cut_off_is_enough(answer: str) -> None:
    stored = [a_turn("user_message", "count"), a_turn("assistant_message", "one two", partial=True)]
    new = a_message("user", "new")

    assert new_messages([a_message("user", "count"), a_message("assistant", answer), new], stored) == [new]


def test_a_question_that_was_never_answered_may_be_followed_by_another() -> None:
    stored = [a_turn("user_message", "first"), a_turn("user_message", "second")]
    new = a_message("user", "third")

    assert new_messages([a_message("user", "first"), a_message("user", "second"), new], stored) == [new]


@pytest.mark.parametrize("seen", [(), ("a",), ("b",), ("a", "b")])
def test_a_text_that_was_cut_off_before_the_client_saw_it_may_be_missing(seen: tuple[str, ...]) -> None:
    texts = [("user", "one"), ("assistant", "a"), ("user", "two"), ("assistant", "b"), ("user", "three")]
    stored = [a_turn(f"{role}_message", text, partial=text in "ab") for role, text in texts]  # type: ignore[arg-type]
    posted = [a_message(role, text) for role, text in texts if role == "user" or text in seen]
    new = a_message("user", "new")

    assert new_messages([*posted, new], stored) == [new]
    assert new_messages([*posted[-1:], new], stored) == [new]
    for index in range(len(posted)):
        changed = [*posted[:index], a_message(posted[index].role, "else"), *posted[index + 1 :], new]
        with pytest.raises(HistoryConflict):
            new_messages(changed, stored)


def test_a_whole_text_may_not_be_missing() -> None:
    stored = conversation_of([("one", ["a"]), ("two", ["b"])])
    with pytest.raises(HistoryConflict):
        new_messages([a_message("user", text) for text in ("one", "two", "new")], stored)


def conversation_of(turns: list[tuple[str, list[str]]]) -> list[ConversationMessage]:
    stored: list[ConversationMessage] = []
    for question, answers in turns:
        stored.append(a_turn("user_message", question))
        stored += [a_turn("assistant_message", answer) for answer in answers]
    return stored


def a_turn(kind: MessageType, text: str, *, partial: bool = False) -> ConversationMessage:
    return ConversationMessage(kind, "r", None, content=text, partial=partial)


def a_message(role: str, text: str) -> Message:
    return Message.model_validate({"role": role, "content": text})
