from app.executors.api_format.prompt import joined_prompt, turns_of
from app.requests.messages import Message

NO_TURNS = [("system", "Be brief."), ("assistant", ""), ("assistant", " \n")]


def test_parts_of_a_prompt_are_paragraphs() -> None:
    assert joined_prompt(["\none\n", "two\n\n", "three"]) == "one\n\ntwo\n\nthree"


def test_system_messages_and_empty_answers_are_no_turns() -> None:
    user, answer = Message.of(role="user", content="hi"), Message.of(role="assistant", content="ho")
    others = [Message.of(role=role, content=text) for role, text in NO_TURNS]

    assert turns_of([*others, user, *others, answer, user]) == [user, answer, user]
