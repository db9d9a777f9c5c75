"""SDK frames, as the CLI sends them."""

from typing import Any

from claude_agent_sdk import AssistantMessage, ResultMessage, StreamEvent, TextBlock, UserMessage
from claude_agent_sdk.types import ContentBlock


def stream(event: dict[str, Any], *, parent: str | None = None) -> StreamEvent:
    return StreamEvent(uuid="u", session_id="s", event=event, parent_tool_use_id=parent)


def started(message_id: str = "msg_1", *, parent: str | None = None, **usage: Any) -> StreamEvent:
    message = {"id": message_id, "model": "claude-sonnet-4-6", "usage": usage}
    return stream({"type": "message_start", "message": message}, parent=parent)


def text(piece: str) -> StreamEvent:
    delta = {"type": "text_delta", "text": piece}
    return stream({"type": "content_block_delta", "index": 0, "delta": delta})


def ended(stop_reason: str | None = "end_turn", **usage: Any) -> StreamEvent:
    return stream({"type": "message_delta", "delta": {"stop_reason": stop_reason}, "usage": usage})


def stopped() -> StreamEvent:
    return stream({"type": "message_stop"})


def assistant(*blocks: ContentBlock, **fields: Any) -> AssistantMessage:
    content = list(blocks) or [TextBlock("hi")]
    return AssistantMessage(
        content=content, **{"model": "claude-sonnet-4-6", "message_id": "msg_1", **fields}
    )


def user(*blocks: ContentBlock) -> UserMessage:
    return UserMessage(content=list(blocks))


def a_result(**fields: Any) -> ResultMessage:
    defaults: dict[str, Any] = {
        "subtype": "success",
        "duration_ms": 1,
        "duration_api_ms": 1,
        "is_error": False,
        "num_turns": 1,
        "session_id": "s",
        "terminal_reason": "completed",
        "stop_reason": "end_turn",
        "result": "hello",
    }
    return ResultMessage(**{**defaults, **fields})
