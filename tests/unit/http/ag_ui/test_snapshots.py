"""What AG-UI clients get that have received something before: snapshots."""

from ag_ui.core import UserMessage

from app.events import ClientEvent, MessageDiscarded, Step, TextDelta, ThinkingDelta, ToolCallResult
from tests.unit.http.ag_ui.test_encoder import A_RUN, GOLDEN, an_encoder, encoded_events, kinds, parsed
from tests.unit.http.events import CALL, STARTED, entries_of


def test_a_snapshot_comes_first() -> None:
    user = UserMessage(id="u", role="user", content="hi")

    encoder, entries = an_encoder(), entries_of(*A_RUN)
    encoder.show([[], [user]], entries[1])
    sent = parsed(encoder.encode(entries))

    queued = kinds(sent).index("MESSAGES_SNAPSHOT")
    assert kinds(sent)[queued - 1 : queued + 2] == ["CUSTOM", "MESSAGES_SNAPSHOT", "MESSAGES_SNAPSHOT"]
    assert [event["messages"] for event in sent[queued : queued + 2]] == [
        [],
        [{"id": "u", "role": "user", "content": "hi"}],
    ]
    assert [*sent[:queued], *sent[queued + 2 :]] == parsed(GOLDEN)


def test_a_discarded_message_is_not_in_the_snapshot_that_follows() -> None:
    user = UserMessage(id="u", role="user", content="hi")
    events: list[ClientEvent] = [
        *(STARTED, ThinkingDelta(message_id="m", delta="hm"), TextDelta(message_id="m", delta="It is tw")),
        MessageDiscarded(message_id="m"),
        *(TextDelta(message_id="m2", delta="It is "), CALL),
        ToolCallResult(tool_call_id="toolu_1", result={"n": 1}, is_error=False),
        *(TextDelta(message_id="m3", delta="x"), MessageDiscarded(message_id="m3")),
        MessageDiscarded(message_id="nobody"),
    ]

    sent = encoded_events(events, posted=[user])

    first, second = (event["messages"] for event in sent if event["type"] == "MESSAGES_SNAPSHOT")
    assert first == [{"id": "u", "role": "user", "content": "hi"}]
    assert [(each["id"], each["role"], each.get("content")) for each in second] == [
        *(("u", "user", "hi"), ("m2", "assistant", "It is ")),
        ("toolu_1:result", "tool", '{"n":1}'),
    ]
    assert [call["function"]["arguments"] for call in second[1]["toolCalls"]] == ['{"to":"bob"}']
    ends = [event["messageId"] for event in sent if event["type"] == "TEXT_MESSAGE_END"]
    assert ends == ["m", "m2", "m3"]


def test_a_text_that_another_attempt_writes_again_is_not_shown_twice() -> None:
    again = STARTED.model_copy(update={"attempt": 2})
    events: list[ClientEvent] = [
        *(
            STARTED,
            TextDelta(message_id="m1", delta="Let me see."),
            CALL,
            Step(step_index=1, step_budget=None),
        ),
        *(TextDelta(message_id="m2", delta="It is 4"), again, TextDelta(message_id="m3", delta="It is 42")),
        again,
    ]

    sent = encoded_events(events)

    first, second = (event["messages"] for event in sent if event["type"] == "MESSAGES_SNAPSHOT")
    assert [each["id"] for each in first] == [each["id"] for each in second] == ["m1"]
    call_first = encoded_events([STARTED, TextDelta(message_id="m1", delta="Look."), CALL, again])
    # Its text was complete.
    assert "MESSAGES_SNAPSHOT" not in kinds(call_first)


def test_the_message_ids_of_a_client_are_known() -> None:
    minted = an_encoder().message_ids(entries_of(*A_RUN))

    assert minted == {"msg_1:thinking:4", "msg_1", "toolu_1", "toolu_1:result", "u-1", "msg_2"}
    assert an_encoder(after=9).message_ids(entries_of(*A_RUN)) == {"u-1", "msg_2"}


def test_only_the_discarded_message_of_its_subagent_is_left_out() -> None:
    theirs = TextDelta(message_id="m", delta="x", parent_tool_call_id="toolu_a")
    events: list[ClientEvent] = [
        *(STARTED, theirs, MessageDiscarded(message_id="m"), theirs),
        *(TextDelta(message_id="m2", delta="y"), MessageDiscarded(message_id="m2")),
    ]

    (snapshot,) = (event for event in encoded_events(events) if event["type"] == "MESSAGES_SNAPSHOT")

    assert [(each["id"], each["content"]) for each in snapshot["messages"]] == [("m", "xx")]
