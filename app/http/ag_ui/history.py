"""The messages of a conversation as AG-UI messages, and their comparison with those a client shows; pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ag_ui.core import (
    AssistantMessage,
    DataSource,
    DeveloperMessage,
    DocumentPart,
    FunctionCall,
    ImagePart,
    Message,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UrlSource,
    UserMessage,
)

from app.conversations.messages import MessageFile
from app.http.ag_ui.output.mapper import json_text, tool_result_id
from app.runs.conversations.page import PageEntry


def ag_ui_messages(entries: Iterable[PageEntry]) -> list[Message]:
    """The messages with the ids that they had in the streams of their runs."""
    shown: list[Message] = []
    results: list[Message] = []
    for entry in entries:
        message = entry.message
        if message.thinking:
            # The ids of reasoning are those of its events.
            continue
        if message.type != "tool_call":
            # The results of parallel calls follow the message that has the calls.
            shown += results
            results = []
        match message.type:
            case "user_message":
                shown.append(UserMessage(id=message.message_id or "", role="user", content=_content(entry)))
            case "assistant_message":
                _add_text(shown, message.message_id or "", message.content)
            case "tool_call":
                _add_call(shown, entry)
                results.append(_result(entry))
            case "system_message":
                continue
    return [*shown, *results]


def snapshot_for(
    posted: Sequence[Message], stored: Sequence[Message], *, received: Sequence[Message] = ()
) -> list[Message] | None:
    """What a client is to show instead of what it has posted; None if it shows that already.

    `received`: reasoning that is streamed again. It is sent empty: clients keep their own unless a snapshot
    has it.

    Messages with the same text are those of the client, with what only it knows of them. System messages
    are the client's own, and not part of a conversation.
    """
    if not received and _shown(posted) == _shown(stored) and _calls(posted) == _calls(stored):
        return None
    emptied = [message.model_copy(update={"content": ""}) for message in received]
    own = {message.id: message for message in posted if isinstance(message, UserMessage)}
    system = [message for message in posted if isinstance(message, SystemMessage | DeveloperMessage)]
    return [*system, *(_preferred(message, own.get(message.id)) for message in stored), *emptied]


def _preferred(stored: Message, posted: Message | None) -> Message:
    is_same = posted is not None and list(_texts([posted])) == list(_texts([stored]))
    return posted if posted is not None and is_same else stored


def _add_text(shown: list[Message], message_id: str, text: str) -> None:
    last = shown[-1] if shown else None
    if isinstance(last, AssistantMessage) and last.id == message_id:
        content = f"{last.content or ''}{text}"
        shown[-1] = last.model_copy(update={"content": content})
    else:
        shown.append(AssistantMessage(id=message_id, role="assistant", content=text))


def _add_call(shown: list[Message], entry: PageEntry) -> None:
    message = entry.message
    call = ToolCall(
        id=message.tool_call_id or "",
        type="function",
        function=FunctionCall(name=message.tool_name or "", arguments=json_text(message.args)),
    )
    last = shown[-1] if shown else None
    if isinstance(last, AssistantMessage) and last.id == message.message_id:
        shown[-1] = last.model_copy(update={"tool_calls": [*(last.tool_calls or []), call]})
    else:
        # Clients put a call without a text before it into a message of its own.
        shown.append(AssistantMessage(id=call.id, role="assistant", tool_calls=[call]))


def _result(entry: PageEntry) -> Message:
    call_id = entry.message.tool_call_id or ""
    result = None if entry.result is None else entry.result.result
    content = result if isinstance(result, str) else json_text(result)
    return ToolMessage(id=tool_result_id(call_id), role="tool", tool_call_id=call_id, content=content)


def _content(entry: PageEntry) -> Any:
    message = entry.message
    if not message.files:
        return message.content
    files = [_file_part(file) for file in message.files]
    return [*([TextPart(type="text", text=message.content)] if message.content else []), *files]


def _file_part(file: MessageFile) -> ImagePart | DocumentPart:
    is_image = file.media_type.startswith("image/")
    source = (
        DataSource(type="data", value=file.data, mime_type=file.media_type)
        if file.url is None
        else UrlSource(type="url", value=file.url, mime_type=None if is_image else file.media_type)
    )
    if is_image:
        return ImagePart(type="image", source=source)
    metadata = None if file.title is None else {"filename": file.title}
    return DocumentPart(type="document", source=source, metadata=metadata)


def text_of(message: UserMessage) -> str:
    """The texts of a user's message."""
    if isinstance(message.content, str):
        return message.content
    return "\n\n".join(part.text for part in message.content if isinstance(part, TextPart))


def _shown(messages: Iterable[Message]) -> list[tuple[str, str, str]]:
    """Roles, ids and texts of what user and agent wrote, without white space around it."""
    return [shown for shown in _texts(messages) if shown[2] or shown[0] == "user"]


def _texts(messages: Iterable[Message]) -> Iterator[tuple[str, str, str]]:
    for message in messages:
        match message:
            case AssistantMessage(content=str(text)) if message.subagent_run_id is None:
                yield "assistant", message.id, text.strip()
            case UserMessage():
                yield "user", message.id, text_of(message).strip()
            case _:
                continue


def _calls(messages: Iterable[Message]) -> set[str]:
    return {
        call.id
        for message in messages
        if isinstance(message, AssistantMessage) and message.subagent_run_id is None
        for call in message.tool_calls or []
    }
