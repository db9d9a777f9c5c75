"""PostedChat: what the requests of this wire have in common, and its conversion to a `GraphRunRequest`."""

import hashlib
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import takewhile
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from app.errors import Invalid
from app.executors.port import NO_SCHEMAS, RunSchemas
from app.graphs.spec import GraphSpec
from app.http.openai.history import PostedHistory
from app.http.openai.messages import Posted, PostedMessage, content_of, new_content, readable_content
from app.http.posted_turns import messages_of, posted_turns
from app.requests.attribution import Label, Metadata, Tags
from app.requests.client_tools import ClientTool
from app.requests.messages import Message
from app.requests.principal import Principal
from app.requests.run_request import Effort, GraphRunRequest, ResponseFormat
from app.runs.chats import Chat, ChatMessage
from app.runs.commands.records import Decide
from app.runs.planner import SystemMessageRefused
from app.runs.requests.attachments import AttachmentRules
from app.runs.stateless.records import LastAnswer

PREFIX: Final = "openai-"
"""How the keys of conversations begin that were started over this wire."""

PostedEffort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]

_MOST_NAMED: Final = 20
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_EFFORTS: Final[dict[str, Effort]] = {"minimal": "low"}


class FunctionDefinition(Posted):
    """A function of the client."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None


class TextFormat(Posted):
    """A text."""

    type: Literal["text"]


class JsonFormat(Posted):
    """Any object."""

    type: Literal["json_object"]


class JsonSchemaFormat(Posted):
    """The schema of the answer."""

    schema_: Annotated[dict[str, Any], Field(alias="schema")]


def _left_out(given: object) -> None:
    if given:
        raise ValueError("must be left out: it is not served")


_NOTHING: Final[Sequence[dict[str, Any]]] = [
    *({"type": "null"}, {"type": "boolean", "const": False}, {"type": "integer", "const": 0}),
    {"type": "array", "items": {}, "maxItems": 0},
]
NotServed: TypeAlias = Annotated[None, BeforeValidator(_left_out), WithJsonSchema({"anyOf": _NOTHING})]
"""A parameter that may only have the value that asks for nothing."""


class PostedChat(BaseModel):
    """Other fields are parameters of other models: they are ignored, and the response names them.

    What has one value only cannot be had here: it is refused instead of ignored.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    id_of_call: ClassVar[str]
    """The field of the call's id in its result."""

    model: Annotated[str, Field(max_length=200)]
    """The id of a graph."""
    stream: Annotated[bool, Field(strict=True)] | None = None
    tool_choice: Literal["auto", "none"] | None = None
    user: Label | None = None
    safety_identifier: Label | None = None
    """The same as `user`, which it precedes."""
    metadata: Metadata | None = None
    tags: Tags | None = None
    """Ours: names and values by which usage is summed up."""
    top_logprobs: NotServed = None

    @property
    @abstractmethod
    def posted(self) -> Sequence[PostedMessage]:
        """The messages."""

    @property
    @abstractmethod
    def client_functions(self) -> Sequence[FunctionDefinition]:
        """The tools that the client executes."""

    @property
    @abstractmethod
    def schema_of_answer(self) -> dict[str, Any] | None:
        """The JSON schema that the answer has to match; None for a text."""

    @property
    @abstractmethod
    def effort(self) -> PostedEffort | None:
        """How thoroughly the model is to work."""

    @abstractmethod
    def field_of(self, index: int, part: str = "") -> str:
        """The name of a message, or of a part of it."""

    @property
    def decisions(self) -> Sequence[tuple[str, Decide]]:
        """What a person has decided about calls since the last message of the user, and in which runs."""
        return ()

    @property
    def results(self) -> Mapping[str, str]:
        """The results of tools that the last message ends, by the ids that we gave the calls."""
        return self.history.results if self.posted and self.posted[-1].role == "tool" else {}

    @property
    def last_results(self) -> frozenset[str]:
        """The ids of the calls whose results are new: none of them was posted with an earlier message."""
        last = takewhile(lambda message: message.role == "tool", reversed(self.posted))
        return frozenset(message.tool_call_id for message in last if message.tool_call_id is not None)

    @property
    def end_user(self) -> str | None:
        """Whom the answer is for."""
        return self.safety_identifier or self.user

    @property
    def chars(self) -> int:
        """About how many characters the posted messages have, attachments included."""
        return sum(part.chars for message in self.posted for part in message.parts)

    @cached_property
    def history(self) -> PostedHistory:
        """Its turns; takes long for large attachments."""
        return PostedHistory.of(self.posted)

    @property
    def described_tools(self) -> list[Any]:
        """The client's functions in the form of `clientTools`."""
        if self.tool_choice == "none":
            return []
        return [
            {
                "name": each.name,
                "description": each.description or "",
                "inputSchema": each.parameters or {"type": "object"},
            }
            for each in self.client_functions
        ]

    def ignored(self, spec: GraphSpec) -> list[str]:
        names = [name for name, value in (self.model_extra or {}).items() if value is not None]
        if self.client_functions and spec.client_tools is False:
            names.append("tools")
        names += self.more_ignored()
        return sorted(name for name in names if _NAME.fullmatch(name))[:_MOST_NAMED]

    def more_ignored(self) -> Iterable[str]:
        """Those of these that only one form of the API has."""
        return ()

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
        last = len(self.posted) - 1
        if last < 0 or self.posted[last].role != "user":
            raise Invalid.field(self.field_of(last), "must be the user's, or the result of a tool")
        if not spec.allow_system_messages:
            for index, message in enumerate(self.posted):
                if message.is_system:
                    raise SystemMessageRefused.at(self.field_of(index, "role"), spec)

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
            build_request=partial(self.build_request, state_key, tools, rules),
            schemas=schemas,
        )

    def build_request(
        self,
        state_key: str,
        tools: Sequence[ClientTool],
        rules: AttachmentRules,
        first_new: int,
        *,
        with_history: bool,
        before: Sequence[Message] = (),
    ) -> GraphRunRequest:
        """See `BuildRequest`; `before`: the turns that the conversation was created with."""
        turns = self.history.turns
        new = turns[-1]
        posted = [turn for turn in turns[first_new:-1] if with_history or turn.role == "user"]
        earlier = [(turn.role, readable_content(turn.message, rules)) for turn in posted]
        content = new_content(self.field_of(new.index, "content"), new.message, rules)
        return GraphRunRequest.of(
            graph_id=self.model,
            messages=[
                *self._system_messages(),
                *before,
                *posted_turns(earlier, content, rules, with_history=with_history),
            ],
            state_key=state_key,
            response_format=self._response_format(),
            **self.choices(),
            end_user=self.end_user,
            tags=self.tags,
            metadata=self.metadata,
            client_tools=tuple(tools),
        )

    def choices(self) -> dict[str, Any]:
        """Fields of the run besides its messages."""
        if self.effort == "none":
            return {"thinking_budget_tokens": 0}
        return {"effort": None if self.effort is None else _EFFORTS.get(self.effort, self.effort)}

    def _system_messages(self) -> Iterator[Any]:
        for index, message in enumerate(self.posted):
            if message.is_system:
                content = content_of(self.field_of(index, "content"), message)
                yield from messages_of("system", [part for _, part in content])

    def _response_format(self) -> ResponseFormat | None:
        schema = self.schema_of_answer
        return None if schema is None else ResponseFormat.of(type="json_schema", schema_=schema)
