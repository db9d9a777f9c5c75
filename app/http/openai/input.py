"""ChatCompletionRequest: the body of `POST /chat/completions`, and its conversion to a `GraphRunRequest`."""

import hashlib
import re
from collections.abc import Sequence
from functools import cached_property, partial
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from app.errors import Invalid
from app.executors.port import NO_SCHEMAS, RunSchemas
from app.graphs.spec import GraphSpec
from app.http.openai.history import PostedHistory, Turn
from app.http.openai.messages import Posted, PostedMessage, content_of, new_content, readable_content
from app.http.posted_turns import messages_of, posted_turns
from app.requests.attribution import Label, Metadata, Tags
from app.requests.client_tools import MOST_DESCRIBED, ClientTool
from app.requests.principal import Principal
from app.requests.runs import Effort, GraphRunRequest, ResponseFormat
from app.runs.chats import Chat, ChatMessage
from app.runs.planner import SystemMessageRefused
from app.runs.requests.attachments import AttachmentRules
from app.runs.stateless.records import LastAnswer

PREFIX: Final = "openai-"
"""How the keys of conversations begin that were started over this wire."""

_MOST_NAMED: Final = 20
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_EFFORTS: Final[dict[str, Effort]] = {"minimal": "low"}


class FunctionDefinition(Posted):
    """A function of the client."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class FunctionTool(Posted):
    """A tool that the client executes; tools of another type are left out."""

    type: str
    function: FunctionDefinition | None = None


class JsonSchemaFormat(Posted):
    """The schema of the answer."""

    schema_: Annotated[dict[str, Any], Field(alias="schema")]


class TextFormat(Posted):
    """A text."""

    type: Literal["text"]


class JsonFormat(Posted):
    """Any object."""

    type: Literal["json_object"]


class SchemaFormat(Posted):
    """An object that matches a schema; it always does, as with `strict`."""

    type: Literal["json_schema"]
    json_schema: JsonSchemaFormat


AnswerFormat: TypeAlias = Annotated[TextFormat | JsonFormat | SchemaFormat, Field(discriminator="type")]


class StreamOptions(Posted):
    """Options of a stream."""

    include_usage: Annotated[bool, Field(strict=True)] | None = None


def _left_out(given: object) -> object:
    if given is not None and given is not False:
        raise ValueError("must be left out: it is not served")
    return given


_NotServed: TypeAlias = Annotated[
    bool | None,
    BeforeValidator(_left_out),
    WithJsonSchema({"anyOf": [{"type": "boolean", "const": False}, {"type": "null"}]}),
]


class ChatCompletionRequest(BaseModel):
    """Other fields are parameters of other models: they are ignored, and the response names them.

    What has one value only cannot be had here: it is refused instead of ignored.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    model: Annotated[str, Field(max_length=200)]
    """The id of a graph."""
    messages: Annotated[list[PostedMessage], Field(min_length=1)]
    stream: Annotated[bool, Field(strict=True)] | None = None
    stream_options: StreamOptions | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=MOST_DESCRIBED)] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    response_format: AnswerFormat | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = None
    user: Label | None = None
    safety_identifier: Label | None = None
    """The same as `user`, which it precedes."""
    metadata: Metadata | None = None
    tags: Tags | None = None
    """Ours: names and values by which usage is summed up."""
    n: Annotated[int, Field(ge=1, le=1, strict=True)] | None = None
    modalities: list[Literal["text"]] | None = None
    logprobs: _NotServed = None
    top_logprobs: _NotServed = None
    audio: _NotServed = None
    functions: _NotServed = None
    function_call: _NotServed = None

    @property
    def end_user(self) -> str | None:
        """Whom the answer is for."""
        return self.safety_identifier or self.user

    @property
    def has_usage(self) -> bool:
        """Whether the last chunk of a stream has the usage."""
        return self.stream_options is not None and self.stream_options.include_usage is True

    @property
    def chars(self) -> int:
        """About how many characters the posted messages have, attachments included."""
        return sum(part.chars for message in self.messages for part in message.parts)

    @cached_property
    def history(self) -> PostedHistory:
        """Its turns; takes long for large attachments."""
        return PostedHistory.of(self.messages)

    @property
    def described_tools(self) -> list[Any]:
        """The client's functions in the form of `clientTools`."""
        if self.tool_choice == "none":
            return []
        functions = [tool.function for tool in self.tools or () if tool.function is not None]
        return [
            {
                "name": each.name,
                "description": each.description or "",
                "inputSchema": each.parameters or {"type": "object"},
            }
            for each in functions
        ]

    @property
    def schema_of_answer(self) -> dict[str, Any] | None:
        """The JSON schema that the answer has to match; None for a text."""
        match self.response_format:
            case SchemaFormat(json_schema=JsonSchemaFormat(schema_=schema)):
                return schema
            case JsonFormat():
                return {"type": "object"}
            case _:
                return None

    def ignored(self, spec: GraphSpec) -> list[str]:
        """The names of the parameters that have no effect."""
        names = [name for name, value in (self.model_extra or {}).items() if value is not None]
        if self.tools and spec.client_tools is False:
            names.append("tools")
        return sorted(name for name in names if _NAME.fullmatch(name))[:_MOST_NAMED]

    def opening(self, caller: Principal) -> str:
        """How the keys of all conversations begin that begin like this one, for the same key and person."""
        first = self.history.turns[0].id
        end_user = caller.end_user or self.end_user or ""
        parts = "\n".join([str(caller.api_key_id), self.model, end_user, first])
        return PREFIX + hashlib.sha256(parts.encode()).hexdigest()[:32]

    @property
    def last_answer(self) -> LastAnswer | None:
        """The answer that the new message follows."""
        if (place := self.history.last_answer) is None:
            return None
        turns = self.history.turns
        return LastAnswer(place, turns[place - 1].id, turns[place].message.text)

    def require_answerable(self, spec: GraphSpec) -> None:
        """Raise `Invalid` unless the last message is the user's, and `SystemMessageRefused`."""
        if self.messages[-1].role != "user":
            field = f"messages.{len(self.messages) - 1}"
            raise Invalid.field(field, "must be the user's, or the result of a tool")
        if not spec.allow_system_messages:
            for index, message in enumerate(self.messages):
                if message.is_system:
                    raise SystemMessageRefused.at(index, spec)

    def chat_message(
        self,
        state_key: str,
        *,
        tools: Sequence[ClientTool],
        rules: AttachmentRules,
        schemas: RunSchemas = NO_SCHEMAS,
    ) -> ChatMessage:
        """The user's message to answer, in this conversation."""
        turns = self.history.turns
        return ChatMessage(
            chat=Chat(self.model, state_key),
            message_id=turns[-1].id,
            regenerate=False,
            posted=[turn.id for turn in turns],
            first_unanswered=(self.history.last_answer or -1) + 1,
            is_whole_view=True,
            chars=self.chars,
            build_request=partial(self._build_request, state_key, tools, rules),
            schemas=schemas,
        )

    def _build_request(
        self,
        state_key: str,
        tools: Sequence[ClientTool],
        rules: AttachmentRules,
        first_new: int,
        *,
        with_history: bool,
    ) -> GraphRunRequest:
        turns = self.history.turns
        new = turns[-1]
        before = [turn for turn in turns[first_new:-1] if with_history or turn.role == "user"]
        earlier = [(turn.role, readable_content(turn.message, rules)) for turn in before]
        return GraphRunRequest.of(
            graph_id=self.model,
            messages=[
                *self._system_messages(),
                *posted_turns(earlier, _new(new, rules), rules, with_history=with_history),
            ],
            state_key=state_key,
            response_format=self._response_format(),
            **self._choices(),
            end_user=self.end_user,
            tags=self.tags,
            metadata=self.metadata,
            client_tools=tuple(tools),
        )

    def _system_messages(self) -> list[Any]:
        system = [(index, each) for index, each in enumerate(self.messages) if each.is_system]
        return [
            message
            for index, each in system
            for message in messages_of("system", [part for _, part in content_of(index, each)])
        ]

    def _response_format(self) -> ResponseFormat | None:
        schema = self.schema_of_answer
        return None if schema is None else ResponseFormat.of(type="json_schema", schema_=schema)

    def _choices(self) -> dict[str, Any]:
        effort = self.reasoning_effort
        if effort == "none":
            return {"thinking_budget_tokens": 0}
        return {"effort": None if effort is None else _EFFORTS.get(effort, effort)}


def _new(turn: Turn, rules: AttachmentRules) -> list[Any]:
    return new_content(turn.index, turn.message, rules)
