"""ResponseRequest: the body of `POST /responses`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import takewhile
from typing import Annotated, Any, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import BeforeValidator, Field, StrictBool, ValidationInfo, field_validator, model_validator

from app.errors import Invalid
from app.executors.port import NO_SCHEMAS, RunSchemas
from app.graphs.spec import GraphSpec
from app.http.openai.messages import Posted, PostedMessage, PostedPart
from app.http.openai.posted import (
    FunctionDefinition,
    JsonFormat,
    JsonSchemaFormat,
    NotServed,
    PostedChat,
    PostedEffort,
    TextFormat,
)
from app.http.openai.responses.ids import ResponseName, request_of
from app.ids import STATE_KEY_PATTERN, new_uuid
from app.requests.client_tools import MOST_DESCRIBED, ClientTool
from app.requests.messages import Message
from app.requests.run_request import GraphRunRequest
from app.runs.chats import ChatMessage
from app.runs.commands.records import Decide
from app.runs.requests.attachments import AttachmentRules

_OUTPUT: Final = "function_call_output"
_APPROVAL: Final = "mcp_approval_response"
_REFERENCE: Final = "item_reference"
_ITEMS: Final = {"message", _OUTPUT, _APPROVAL, _REFERENCE}
_REASON_CHARS: Final = 4_000


def _only(known: set[str], default: str | None = None) -> BeforeValidator:
    """Of what has another type only that is read."""

    def read(given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        kind = given.get("type") or default
        return {**given, "type": kind} if not isinstance(kind, str) or kind in known else {"type": kind}

    return BeforeValidator(read)


class InputItem(Posted):
    """An item: a message, a result or a decision; all others are known to the conversation, or ignored."""

    type: str
    role: Literal["user", "assistant", "system", "developer"] | None = None
    content: str | list[PostedPart] | None = None
    id: Annotated[str, Field(max_length=400)] | None = None
    call_id: Annotated[str, Field(max_length=300)] | None = None
    output: str | list[PostedPart] | None = None
    approval_request_id: Annotated[str, Field(max_length=400)] | None = None
    approve: StrictBool | None = None
    reason: Annotated[str, Field(max_length=_REASON_CHARS)] | None = None

    @model_validator(mode="after")
    def _is_complete(self) -> Self:
        needed: dict[str, Mapping[str, bool]] = {
            "message": {"role": self.role is not None},
            _OUTPUT: {"call_id": self.call_id is not None},
            _REFERENCE: {"id": self.id is not None and ResponseName.of(self.id) is not None},
            _APPROVAL: {
                "approval_request_id": request_of(self.approval_request_id or "") is not None,
                "approve": self.approve is not None,
            },
        }
        missing = [name for name, is_given in needed.get(self.type, {}).items() if not is_given]
        if missing:
            raise ValueError(f"needs a valid {' and '.join(missing)}")
        return self

    @property
    def message(self) -> PostedMessage | None:
        match self.type:
            case "message":
                return PostedMessage.model_validate({"role": self.role, "content": self.content})
            case "function_call_output":
                return PostedMessage(role="tool", content=self.output, tool_call_id=self.call_id)
            case _:
                return None


class ResponseTool(Posted):
    """A tool that the client executes; those of another type are left out."""

    type: str
    name: str = ""
    description: str | None = None
    parameters: dict[str, Any] | None = None


class SchemaTextFormat(JsonSchemaFormat):
    """An object that matches a schema; it always does, as with `strict`."""

    type: Literal["json_schema"]


class TextConfig(Posted):
    """What the text of the answer is."""

    format: Annotated[TextFormat | JsonFormat | SchemaTextFormat, Field(discriminator="type")] | None = None


class Reasoning(Posted):
    """How thoroughly the model is to work."""

    effort: PostedEffort | None = None


class NamedConversation(Posted):
    """A conversation."""

    id: Annotated[str, Field(pattern=STATE_KEY_PATTERN)]


def _named(given: object) -> object:
    return {"id": given} if isinstance(given, str) else given


PostedItems: TypeAlias = list[Annotated[InputItem, _only(_ITEMS, "message")]]


class ResponseRequest(PostedChat):
    """The items after those that the conversation has, or all of them where none is named."""

    id_of_call: ClassVar[str] = "call_id"

    input: str | Annotated[PostedItems, Field(min_length=1)]
    instructions: str | None = None
    previous_response_id: Annotated[str, Field(max_length=400)] | None = None
    conversation: Annotated[NamedConversation, BeforeValidator(_named)] | None = None
    background: StrictBool | None = None
    store: StrictBool | None = None
    tools: Annotated[list[Annotated[ResponseTool, _only({"function"})]], Field(max_length=MOST_DESCRIBED)] | (
        None
    ) = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    prompt: NotServed = None

    @field_validator("conversation")
    @classmethod
    def _alone(cls, given: NamedConversation | None, info: ValidationInfo) -> NamedConversation | None:
        if given is not None and info.data.get("previous_response_id") is not None:
            raise ValueError("must be left out: the previous response is of one")
        return given

    @property
    def posted(self) -> Sequence[PostedMessage]:
        """The messages, without those that the conversation has."""
        return [message for _, message in self._located]

    def field_of(self, index: int, part: str = "") -> str:
        """The name of an item, or of a part of it."""
        name = self._located[index][0] if self._located else "input"
        return f"{name}.{part}" if part and name[-1].isdigit() else name

    @cached_property
    def previous(self) -> ResponseName | None:
        """The response that this one follows: that of the last item that is only named."""
        if self.previous_response_id is not None:
            return ResponseName.named(self.previous_response_id)
        known = self._references
        return ResponseName.of(known[-1][1]) if known else None

    @property
    def decisions(self) -> Sequence[tuple[str, Decide]]:
        decided: list[tuple[str, Decide]] = []
        for _, item in self._items:
            asked = request_of(item.approval_request_id or "")
            if asked is not None and item.type == _APPROVAL:
                run_id, request_id = asked
                decision: Literal["allow", "deny"] = "allow" if item.approve else "deny"
                decided.append(
                    (run_id, Decide(request_id=request_id, decision=decision, message=item.reason))
                )
            elif item.role == "user":
                decided.clear()
        return decided

    @property
    def last_results(self) -> frozenset[str]:
        """See `PostedChat`; calls, which are no messages, may be between results."""
        last = takewhile(lambda located: located[1].type == _OUTPUT, reversed(self._items))
        return frozenset(item.call_id for _, item in last if item.call_id is not None)

    @property
    def effort(self) -> PostedEffort | None:
        """How thoroughly the model is to work."""
        return None if self.reasoning is None else self.reasoning.effort

    @property
    def client_functions(self) -> Sequence[FunctionDefinition]:
        return [
            FunctionDefinition(name=each.name, description=each.description, parameters=each.parameters)
            for each in self.tools or ()
            if each.type == "function"
        ]

    @property
    def schema_of_answer(self) -> dict[str, Any] | None:
        """The JSON schema that the answer has to match; None for a text."""
        match self.text:
            case TextConfig(format=SchemaTextFormat(schema_=schema)):
                return schema
            case TextConfig(format=JsonFormat()):
                return {"type": "object"}
            case _:
                return None

    def more_ignored(self) -> Iterator[str]:
        if self.store is False:
            yield "store"
        yield from {f"tools.{tool.type}" for tool in self.tools or () if tool.type != "function"}

    def require_answerable(self, spec: GraphSpec) -> None:
        """See `PostedChat`; a named conversation has its answers, and takes no other ones."""
        super().require_answerable(spec)
        if self.previous is None and self.conversation is None:
            return
        for index, message in enumerate(self.posted):
            if message.role == "assistant":
                field = self.field_of(index, "role")
                raise Invalid.field(field, "must not be assistant: the named conversation has its answers")

    def choices(self) -> dict[str, Any]:
        """Fields of the run besides its messages; no reader of a background response decides its end."""
        return {**super().choices(), "on_disconnect": "continue" if self.background else None}

    def next_message(
        self,
        state_key: str,
        *,
        after: str | None,
        tools: Sequence[ClientTool],
        rules: AttachmentRules,
        schemas: RunSchemas = NO_SCHEMAS,
    ) -> ChatMessage:
        """The user's message after this run, or at the end of the conversation."""
        message = self.chat_message(state_key, tools=tools, rules=rules, schemas=schemas)
        # The same words may be said twice.
        message_id = f"msg-{new_uuid()}"
        before = [] if after is None else [after]

        def build(first_new: int, *, with_history: bool) -> GraphRunRequest:  # noqa: ARG001
            return self.build_request(state_key, tools, rules, 0, with_history=False)

        return replace(
            message,
            message_id=message_id,
            posted=[*before, message_id],
            first_unanswered=len(before),
            is_whole_view=after is not None,
            build_request=build,
        )

    def first_message(
        self,
        state_key: str,
        earlier: Sequence[Message],
        *,
        tools: Sequence[ClientTool],
        rules: AttachmentRules,
        schemas: RunSchemas = NO_SCHEMAS,
    ) -> ChatMessage:
        """The user's message that begins a conversation, after these turns."""
        message = self.next_message(state_key, after=None, tools=tools, rules=rules, schemas=schemas)

        def build(first_new: int, *, with_history: bool) -> GraphRunRequest:  # noqa: ARG001
            before = earlier if with_history else ()
            return self.build_request(state_key, tools, rules, 0, with_history=with_history, before=before)

        return replace(message, is_whole_view=True, build_request=build)

    @cached_property
    def _references(self) -> Sequence[tuple[int, str]]:
        if isinstance(self.input, str):
            return []
        return [
            (index, item.id) for index, item in enumerate(self.input) if item.type == _REFERENCE and item.id
        ]

    @cached_property
    def _items(self) -> Sequence[tuple[str, InputItem]]:
        """Those after the last one that is only named, and all system messages."""
        if isinstance(self.input, str):
            return []
        last = self._references[-1][0] if self._references else -1
        return [
            (f"input.{index}", item)
            for index, item in enumerate(self.input)
            if index > last or item.role in {"system", "developer"}
        ]

    @cached_property
    def _located(self) -> Sequence[tuple[str, PostedMessage]]:
        located: list[tuple[str, PostedMessage]] = []
        if self.instructions:
            located.append(("instructions", PostedMessage(role="developer", content=self.instructions)))
        if isinstance(self.input, str):
            return [*located, ("input", PostedMessage(role="user", content=self.input))]
        messages = ((name, item.message) for name, item in self._items)
        return [*located, *((name, message) for name, message in messages if message is not None)]
