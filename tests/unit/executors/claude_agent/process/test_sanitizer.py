from claude_agent_sdk import AssistantMessage, StreamEvent, TextBlock, ToolUseBlock

from app.executors.claude_agent.process.sanitizer import sanitize
from app.usage.provider import token_usage
from app.usage.records import TokenUsage
from tests.unit.executors.claude_agent.frames import assistant, stream


def test_what_cannot_be_stored_is_replaced_wherever_it_stands() -> None:
    said = assistant(
        TextBlock("a\0"), ToolUseBlock("toolu_\ud800", "n\0", {"k\0": ["\udc00"]}), message_id="msg_\0"
    )

    responded = sanitize(said)

    assert isinstance(responded, AssistantMessage)
    assert responded.content == [
        TextBlock("a\ufffd"),
        ToolUseBlock("toolu_\ufffd", "n\ufffd", {"k\ufffd": ["\ufffd"]}),
    ]
    assert str(responded.message_id).startswith("msg__~")


def test_names_and_numbers_of_a_message_are_bounded() -> None:
    usage = {"input_tokens": 10**30, "output_tokens": True, "cache_read_input_tokens": 5}
    started = {"id": "msg_" + "x" * 10_000, "model": "m" * 10_000, "usage": usage}

    responded = sanitize(stream({"type": "message_start", "message": started}))

    assert isinstance(responded, StreamEvent)
    message = responded.event["message"]
    assert max(len(message["id"]), len(message["model"])) <= 200
    assert token_usage(message["usage"]) == TokenUsage(cache_read_tokens=5)


def test_what_is_fine_stays_as_it_is() -> None:
    delta = stream({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "hi"}})

    assert sanitize(delta) is delta
