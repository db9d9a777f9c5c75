from claude_agent_sdk import UserMessage

from app.executors.claude_agent.process.pending_messages import PendingMessages
from tests.unit.executors.claude_agent.frames import a_result, assistant


def begun(message_id: str) -> UserMessage:
    return UserMessage(content="x", uuid=message_id)


def test_a_message_is_pending_until_the_cli_repeats_it() -> None:
    pending = PendingMessages()
    pending.add("m1")
    assert (pending.any_pending, pending.in_turn, pending.has_next_turn) == (True, False, False)

    pending.feed(begun("m1"))
    assert (pending.any_pending, pending.in_turn, pending.any_turn_started) == (False, True, True)

    pending.feed(assistant())
    pending.feed(a_result())
    assert (pending.any_pending, pending.in_turn, pending.has_next_turn) == (False, False, False)


def test_what_was_sent_during_a_turn_is_the_next_turn_unless_it_became_part_of_this_one() -> None:
    pending = PendingMessages()
    for message_id in ("m1", "m2", "m3"):
        pending.add(message_id)
    pending.feed(begun("m1"))
    assert pending.has_next_turn

    pending.feed(begun("m2"))
    pending.feed(a_result(user_message_uuids=["m1", "m2"]))
    assert (pending.any_pending, pending.has_next_turn) == (True, False)


def test_a_turn_that_fails_at_once_is_the_first_messages() -> None:
    pending = PendingMessages()
    pending.add("m1")
    pending.add("m2")
    pending.feed(a_result(is_error=True))
    assert pending.any_pending

    pending.feed(begun("m2"))
    assert not pending.any_pending
