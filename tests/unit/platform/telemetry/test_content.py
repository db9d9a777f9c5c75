import json
from typing import Any

import pytest

from app.platform.telemetry import content


def test_a_streamed_answer_is_one_message_without_thinking() -> None:
    events: list[dict[str, Any]] = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "hm"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Let me "}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "look."}},
        {
            "type": "content_block_start",
            "index": 2,
            "content_block": {"type": "tool_use", "id": "c", "name": "clock", "input": {}},
        },
        {
            "type": "content_block_delta",
            "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": '{"a"'},
        },
        {
            "type": "content_block_delta",
            "index": 2,
            "delta": {"type": "input_json_delta", "partial_json": ":1}"},
        },
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
    ]
    stream = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)

    assert json.loads(content.output_messages(stream) or "") == [
        {
            "role": "assistant",
            "parts": [
                {"type": "text", "content": "Let me look."},
                {"type": "tool_call", "id": "c", "name": "clock", "arguments": '{"a":1}'},
            ],
            "finish_reason": "tool_use",
        }
    ]


def test_results_of_tools_are_not_in_the_messages_of_a_request() -> None:
    result = {"type": "tool_result", "tool_use_id": "c", "content": "hidden from clients"}
    body = json.dumps({"messages": [{"role": "user", "content": [result, {"type": "image"}]}]}).encode()

    messages = content.input_messages(body) or ""
    assert "hidden" not in messages
    assert [part["type"] for part in json.loads(messages)[0]["parts"]] == ["tool_call_response", "image"]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"messages": 1}', b"\xff", b"[" * 100_000, b"x" * (content.MAX_BODY_BYTES + 1)],
)
def test_what_is_no_request_and_no_answer_has_no_messages(body: bytes) -> None:
    assert content.input_messages(body) is None
    assert content.output_messages(body.decode("latin-1")) is None


def test_long_content_is_cut() -> None:
    many = [{"role": "user", "content": f"{number} " + "x" * 5000} for number in range(100)]
    messages = content.input_messages(json.dumps({"messages": many}).encode()) or ""
    received = content.ReceivedBody()
    for _ in range(3):
        received.add(b"x" * content.MAX_BODY_BYTES)

    assert len(messages) <= content.MAX_CHARS
    assert json.loads(messages)[-1]["parts"][0]["content"].startswith("99 ")
    assert len(received.text()) == content.MAX_BODY_BYTES
