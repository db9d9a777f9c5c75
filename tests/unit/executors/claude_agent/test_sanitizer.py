from claude_agent_sdk import AssistantMessage, StreamEvent, TextBlock, ToolUseBlock

from app.executors.claude_agent.sanitizer import taken_in
from tests.unit.executors.claude_agent.frames import assistant, stream


def test_what_cannot_be_stored_is_replaced_wherever_it_stands() -> None:
    said = assistant(
        TextBlock("a\0"), ToolUseBlock("toolu_\ud800", "n\0", {"k\0": ["\udc00"]}), message_id="msg_\0"
    )

    heard = taken_in(said)

    assert isinstance(heard, AssistantMessage)
    assert heard.content == [
        TextBlock("a\ufffd"),
        ToolUseBlock("toolu_\ufffd", "n\ufffd", {"k\ufffd": ["\ufffd"]}),
    ]
    assert str(heard.message_id).startswith("msg__~")


def test_names_and_numbers_of_a_message_are_bounded() -> None:
    usage = {"input_tokens": 10**30, "output_tokens": True, "cache_read_input_tokens": 5}
    started = {"id": "msg_" + "x" * 10_000, "model": "m" * 10_000, "usage": usage}

    heard = taken_in(stream({"type": "message_start", "message": started}))

    assert isinstance(heard, StreamEvent)
    message = heard.event["message"]
    assert max(len(message["id"]), len(message["model"])) <= 200
    assert message["usage"] == {"cache_read_input_tokens": 5}


def test_what_is_fine_stays_as_it_is() -> None:
    delta = stream({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hi"}})

    assert taken_in(delta) is delta
