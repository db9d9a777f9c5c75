"""sanitize: makes an SDK message safe to store and bill; text, ids and models; pure."""

from dataclasses import replace
from typing import Any

from claude_agent_sdk import AssistantMessage, Message, ResultMessage, StreamEvent

from app.executors.claude_agent.options.long_context import with_provider_names
from app.storable import identifier, storable
from app.usage.provider import clean_usage


def sanitize(message: Message) -> Message:
    """The message with storable text, bounded ids, valid token counts, and the provider's names of models."""
    message = storable(message)
    match message:
        case StreamEvent(event={"type": "message_start", "message": dict(started)} as event):
            return replace(message, event={**event, "message": _named(started)})
        case StreamEvent(event={"type": "message_delta"} as event):
            return replace(message, event={**event, "usage": clean_usage(event.get("usage"))})
        case AssistantMessage():
            return replace(
                message,
                message_id=None if message.message_id is None else identifier(message.message_id),
                model=identifier(message.model),
                usage=clean_usage(message.usage),
            )
        case ResultMessage(model_usage=dict(usage)):
            return replace(message, model_usage=with_provider_names(usage))
        case _:
            return message


def _named(started: dict[str, Any]) -> dict[str, Any]:
    names = {name: identifier(str(value)) for name, value in started.items() if name in {"id", "model"}}
    return {**started, **names, "usage": clean_usage(started.get("usage"))}
