"""ChatRequest: what `useChat` posts, and its conversion to a `GraphRunRequest`."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from app.errors import Invalid
from app.graphs.spec import GraphSpec
from app.ids import STATE_KEY_PATTERN
from app.requests import (
    ContentPart,
    GraphRunRequest,
    ImageMediaType,
    ImagePart,
    InputModel,
    Message,
    OnConflict,
    ResponseFormat,
    RunLimits,
    TextPart,
    UploadedFile,
)
from app.runs.chats import Chat, ChatMessage
from app.runs.commands.records import Decide
from app.runs.planner import SystemMessageRefused

_DATA_URL = re.compile(r"data:(?P<type>[a-z]+/[a-z0-9.+-]+);base64,(?P<data>.*)", re.DOTALL)
_IMAGES: tuple[str, ...] = get_args(ImageMediaType)


class _Posted(BaseModel):
    """Unknown fields are ignored: every release of the SDK adds some."""

    model_config = ConfigDict(alias_generator=to_camel, extra="ignore", frozen=True)


class UiApproval(_Posted):
    """A person's decision on a `tool-approval-request`."""

    id: str
    approved: Annotated[bool, Field(strict=True)] | None = None
    reason: Annotated[str, Field(max_length=4_000)] | None = None


class UiPart(_Posted):
    """A part of a message: `text`, `file`, `tool-…` and others."""

    type: str
    text: str | None = None
    url: str | None = None
    state: str | None = None
    approval: UiApproval | None = None


class UiMessage(_Posted):
    """A `UIMessage`."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    role: Literal["system", "user", "assistant"]
    parts: list[UiPart]

    @property
    def decisions(self) -> list[Decide]:
        """The person's decisions in this message that the run may not have received yet."""
        return [
            Decide(
                request_id=part.approval.id,
                decision="allow" if part.approval.approved else "deny",
                message=part.approval.reason or None,
            )
            for part in self.parts
            if part.approval and part.state == "approval-responded"
        ]


class ChatRequest(InputModel):
    """The body of `DefaultChatTransport`, and the fields of a run that its option `body` can add."""

    id: Annotated[str, Field(pattern=STATE_KEY_PATTERN)]
    """The chat; the conversation's `stateKey`."""
    messages: Annotated[list[UiMessage], Field(min_length=1)]
    trigger: Literal["submit-message", "regenerate-message"] = "submit-message"
    message_id: str | None = None
    """The message that is regenerated or edited; null for a new one."""
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    tool_ids: list[str] | None = None
    on_conflict: OnConflict = "enqueue"
    response_format: ResponseFormat | None = None
    limits: RunLimits = RunLimits()
    files: tuple[UploadedFile, ...] = ()

    @property
    def decided_message(self) -> UiMessage | None:
        """The assistant's message with a person's decisions; None if this posts a user message."""
        named = [each for each in self.messages if each.id == self.message_id]
        for message in (*named, self.messages[-1]):
            if message.role == "assistant" and message.decisions:
                return message
        return None

    @property
    def user_message(self) -> UiMessage:
        """The last message; raises `Invalid` if it is not the user's."""
        last = self.messages[-1]
        if last.role != "user":
            field = f"messages.{len(self.messages) - 1}"
            raise Invalid.field(field, "must be the user's, or hold a decision on an approval request")
        return last

    def require_no_system(self, spec: GraphSpec) -> None:
        """Raise `SystemMessageRefused` naming the first message that would extend the system prompt."""
        if spec.allow_system_messages:
            return
        for index, message in enumerate(self.messages):
            if message.role == "system":
                raise SystemMessageRefused.at(index, spec)

    def chat_message(self, graph_id: str) -> ChatMessage:
        """The user's message to answer; raises `Invalid` if the last one is not the user's."""
        return ChatMessage(
            chat=Chat(graph_id, self.id),
            message_id=self.user_message.id,
            regenerate=self.trigger == "regenerate-message",
            build_request=lambda run_id, with_history: self.build_request(
                graph_id, run_id, with_history=with_history
            ),
        )

    def build_request(self, graph_id: str, run_id: str | None, *, with_history: bool) -> GraphRunRequest:
        """The run of the last message, with or without the earlier messages.

        Raises `Invalid` naming a part that cannot be converted.
        """
        last = len(self.messages) - 1
        if (new := _message(last, self.user_message)) is None:
            field = f"messages.{last}.parts"
            raise Invalid.field(field, "hold no text and no image")
        earlier = [
            message
            for index, posted in enumerate(self.messages[:last])
            if with_history or posted.role == "system"
            if (message := _message(index, posted)) is not None
        ]
        return GraphRunRequest.of(
            run_id=run_id,
            graph_id=graph_id,
            messages=[*earlier, new],
            model=self.model,
            tool_ids=self.tool_ids,
            state_key=self.id,
            on_conflict=self.on_conflict,
            response_format=self.response_format,
            limits=self.limits,
            files=self.files,
        )


def _message(index: int, posted: UiMessage) -> Message | None:
    """The message with its texts and a user's images; None if there are none."""
    content = [
        part
        for number, ui_part in enumerate(posted.parts)
        for part in _content(ui_part, posted.role, field=f"messages.{index}.parts.{number}")
    ]
    match content:
        case []:
            return None
        case [TextPart(text=text)]:
            return Message.of(role=posted.role, content=text)
        case _:
            return Message.of(role=posted.role, content=content)


def _content(part: UiPart, role: str, *, field: str) -> Iterator[ContentPart]:
    match part.type:
        case "text" if part.text:
            yield TextPart(type="text", text=part.text)
        case "file" if role == "user":
            yield _image(part.url or "", field=f"{field}.url")
        case _:
            return


def _image(url: str, *, field: str) -> ImagePart:
    """The image in a data: URL; the part's own `mediaType` may be only `image/*`."""
    if (named := _DATA_URL.fullmatch(url)) is None:
        raise Invalid.field(field, "must be a data: URL in base64; files elsewhere are not fetched")
    if named["type"] not in _IMAGES:
        message = f"must hold one of {', '.join(_IMAGES)}"
        raise Invalid.field(field, message)
    try:
        return ImagePart.of(type="image", media_type=named["type"], data=named["data"])
    except ValidationError as error:
        raise Invalid.field(field, "is not valid base64") from error
