"""ChatCompletionRequest: the body of `POST /chat/completions`."""

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from app.http.openai.messages import Posted, PostedMessage
from app.http.openai.posted import (
    FunctionDefinition,
    JsonFormat,
    JsonSchemaFormat,
    NotServed,
    PostedChat,
    PostedEffort,
    TextFormat,
)
from app.requests.client_tools import MOST_DESCRIBED


class FunctionTool(Posted):
    """A tool that the client executes; tools of another type are left out."""

    type: str
    function: FunctionDefinition | None = None


class SchemaFormat(Posted):
    """An object that matches a schema; it always does, as with `strict`."""

    type: Literal["json_schema"]
    json_schema: JsonSchemaFormat


AnswerFormat: TypeAlias = Annotated[TextFormat | JsonFormat | SchemaFormat, Field(discriminator="type")]


class StreamOptions(Posted):
    """Options of a stream."""

    include_usage: Annotated[bool, Field(strict=True)] | None = None


class ChatCompletionRequest(PostedChat):
    """A chat to answer: all of its messages."""

    id_of_call: ClassVar[str] = "tool_call_id"

    messages: Annotated[list[PostedMessage], Field(min_length=1)]
    stream_options: StreamOptions | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=MOST_DESCRIBED)] | None = None
    response_format: AnswerFormat | None = None
    reasoning_effort: PostedEffort | None = None
    n: Annotated[int, Field(ge=1, le=1, strict=True)] | None = None
    modalities: list[Literal["text"]] | None = None
    logprobs: NotServed = None
    audio: NotServed = None
    functions: NotServed = None
    function_call: Literal["auto", "none"] | None = None

    @property
    def posted(self) -> Sequence[PostedMessage]:
        return self.messages

    def field_of(self, index: int, part: str = "") -> str:
        """The name of a message, or of a part of it."""
        return f"messages.{index}.{part}".rstrip(".")

    @property
    def effort(self) -> PostedEffort | None:
        """How thoroughly the model is to work."""
        return self.reasoning_effort

    @property
    def has_usage(self) -> bool:
        """Whether the last chunk of a stream has the usage."""
        return self.stream_options is not None and self.stream_options.include_usage is True

    @property
    def client_functions(self) -> Sequence[FunctionDefinition]:
        return [tool.function for tool in self.tools or () if tool.function is not None]

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
