"""The messages of a conversation as AG-UI messages; pure."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from ag_ui import core
from pydantic import TypeAdapter

from app.conversations.messages import MessageFile
from app.http.ag_ui.content import chars_of
from app.http.ag_ui.output.mapper import json_text, tool_result_id
from app.platform.concurrency.offload import SMALL_BYTES
from app.runs.conversations.page import PageEntry

_MESSAGES: Final[TypeAdapter[list[core.Message]]] = TypeAdapter(list[core.Message])
_MESSAGE_BYTES: Final = 512
"""Converting a message is about as much work as reading so many bytes."""


def ag_ui_messages(entries: Iterable[PageEntry]) -> list[core.Message]:
    """The messages with the ids that they had in the streams of their runs."""
    thread = _Thread()
    for entry in entries:
        # The ids of reasoning are those of its events.
        if not entry.message.thinking and entry.message.type != "system_message":
            thread.add(entry)
    return thread.messages()


def messages_json(entries: Iterable[PageEntry]) -> bytes:
    return _MESSAGES.dump_json(ag_ui_messages(entries), by_alias=True, exclude_none=True)


def work_size(entries: Sequence[PageEntry], posted: Sequence[core.Message] = ()) -> int:
    """About how many bytes are processed to convert these messages, and to compare them with those posted."""
    size = _MESSAGE_BYTES * (len(entries) + len(posted))
    if size > SMALL_BYTES:
        # It is large in any case.
        return size
    return size + sum(len(each.message.content) for each in entries) + sum(map(chars_of, posted))


class _Thread:
    """Puts messages together as clients do with the events of a stream."""

    def __init__(self) -> None:
        self._shown: list[core.Message] = []
        self._results: list[core.Message] = []
        """Of the last message of the model; they follow all of it."""
        self._source: str | None = None
        """Its id."""
        self._text: int | None = None
        """The place of the message with its text."""

    def add(self, entry: PageEntry) -> None:
        """Add a message, a part of one, or a call with its result."""
        message = entry.message
        message_id = message.message_id or ""
        if message.type == "user_message" or message_id != self._source:
            self._shown = self.messages()
            self._results, self._source, self._text = [], message_id, None
        match message.type:
            case "user_message":
                self._shown.append(core.UserMessage(id=message_id, role="user", content=_content(entry)))
            case "tool_call":
                self._add_call(entry)
            case _:
                self._add_text(message_id, message.content)

    def messages(self) -> list[core.Message]:
        return [*self._shown, *self._results] if self._results else self._shown

    def _add_text(self, message_id: str, text: str) -> None:
        begun = self._begun()
        if begun is None:
            self._text = len(self._shown)
            self._shown.append(core.AssistantMessage(id=message_id, role="assistant", content=text))
        else:
            begun.content = f"{begun.content or ''}{text}"

    def _add_call(self, entry: PageEntry) -> None:
        message = entry.message
        call = core.ToolCall(
            id=message.tool_call_id or "",
            type="function",
            function=core.FunctionCall(name=message.tool_name or "", arguments=json_text(message.args)),
        )
        begun = self._begun()
        if begun is None:
            # Clients put a call without a text before it into a message of its own.
            self._shown.append(core.AssistantMessage(id=call.id, role="assistant", tool_calls=[call]))
        else:
            begun.tool_calls = [*(begun.tool_calls or []), call]
        self._results.append(_result(entry))

    def _begun(self) -> core.AssistantMessage | None:
        begun = None if self._text is None else self._shown[self._text]
        return begun if isinstance(begun, core.AssistantMessage) else None


def _result(entry: PageEntry) -> core.Message:
    call_id = entry.message.tool_call_id or ""
    result = None if entry.result is None else entry.result.result
    content = result if isinstance(result, str) else json_text(result)
    return core.ToolMessage(id=tool_result_id(call_id), role="tool", tool_call_id=call_id, content=content)


def _content(entry: PageEntry) -> Any:
    message = entry.message
    if not message.files:
        return message.content
    files = [_file_part(file) for file in message.files]
    return [*([core.TextPart(type="text", text=message.content)] if message.content else []), *files]


def _file_part(file: MessageFile) -> core.ImagePart | core.DocumentPart:
    is_image = file.media_type.startswith("image/")
    source = (
        core.DataSource(type="data", value=file.data, mime_type=file.media_type)
        if file.url is None
        else core.UrlSource(type="url", value=file.url, mime_type=None if is_image else file.media_type)
    )
    if is_image:
        return core.ImagePart(type="image", source=source)
    metadata = None if file.title is None else {"filename": file.title}
    return core.DocumentPart(type="document", source=source, metadata=metadata)
