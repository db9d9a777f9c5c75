"""The messages of a conversation as the AI SDK's UI messages; pure."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from app.http.ai_sdk.parts import failed_call, reason_of
from app.runs.conversations.page import PageEntry

UiMessages: TypeAlias = list[dict[str, Any]]


def ui_messages(entries: Iterable[PageEntry], *, show_thinking: bool = False) -> UiMessages:
    """The messages with the ids and parts that their streams had: an answer has its run's id."""
    return _messages(entry for entry in entries if show_thinking or not entry.message.thinking)


def _messages(entries: Iterable[PageEntry]) -> UiMessages:
    shown: UiMessages = []
    step: str | None = None
    for entry in entries:
        message = entry.message
        last: dict[str, Any] = shown[-1] if shown else {"id": None, "role": None}
        is_of_answer = last["role"] == "assistant" and last["id"] == message.run_id
        match message.type:
            case "user_message" if is_of_answer:
                data = {"messageId": message.message_id, "content": message.content}
                last["parts"].append({"type": "data-user-message", "id": message.message_id, "data": data})
            case "user_message":
                shown.append({"id": message.message_id, "role": "user", "parts": _user_parts(entry)})
            case "assistant_message" | "tool_call":
                answer_id = message.message_id if message.at is None else message.run_id
                if last["role"] != "assistant" or last["id"] != answer_id:
                    last, step = {"id": answer_id, "role": "assistant", "parts": []}, None
                    shown.append(last)
                if step is None or step != message.message_id:
                    step = message.message_id
                    last["parts"].append({"type": "step-start"})
                last["parts"].append(_part(entry))
            case "system_message":
                continue
    return shown


def _user_parts(entry: PageEntry) -> Sequence[dict[str, Any]]:
    message = entry.message
    texts = [{"type": "text", "text": message.content}] if message.content else []
    files = [
        {
            "type": "file",
            "mediaType": file.media_type,
            "url": file.url or f"data:{file.media_type};base64,{file.data}",
            **({} if file.title is None else {"filename": file.title}),
        }
        for file in message.files
    ]
    return [*files, *texts]


def _part(entry: PageEntry) -> dict[str, Any]:
    message, result = entry.message, entry.result
    if message.thinking:
        return {"type": "reasoning", "text": message.thinking, "state": "done"}
    if message.type != "tool_call":
        return {"type": "text", "text": message.content, "state": "done"}
    call = {
        "type": f"tool-{message.tool_name}",
        "toolCallId": message.tool_call_id,
        "input": message.args,
        "providerExecuted": True,
    }
    shown = None if result is None else result.result
    is_error = message.is_error if result is None else result.is_error
    if is_error is None:
        return {**call, "state": "output-error", "errorText": failed_call("interrupted")}
    if is_error:
        return {**call, "state": "output-error", "errorText": failed_call(reason_of(shown))}
    return {**call, "state": "output-available", "output": shown}
