from app.executors.api_format.prompt import joined_prompt, without_system
from app.requests.messages import Message


def test_parts_of_a_prompt_are_paragraphs() -> None:
    assert joined_prompt(["\none\n", "two\n\n", "three"]) == "one\n\ntwo\n\nthree"


def test_system_messages_are_no_turns() -> None:
    user = Message.of(role="user", content="hi")
    assert without_system([Message.of(role="system", content="Be brief."), user]) == [user]
