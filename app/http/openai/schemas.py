"""JSON of models and completions, as clients of OpenAI's API read them."""

from typing import Any, Literal, Self

from pydantic import BaseModel

from app.graphs.spec import GraphSpec


class OpenAiModel(BaseModel):
    """A graph as a model."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "runtally"
    description: str

    @classmethod
    def of(cls, graph: GraphSpec) -> Self:
        """Build from a graph."""
        return cls(id=graph.id, description=graph.description)


class OpenAiModels(BaseModel):
    """The graphs that the key may run."""

    object: Literal["list"] = "list"
    data: list[OpenAiModel]


class CalledFunction(BaseModel):
    """A function and its arguments as JSON."""

    name: str
    arguments: str


class FunctionCall(BaseModel):
    """A call that the client executes."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class CompletionMessage(BaseModel):
    """The answer; `reasoning_content` if the graph shows thinking, `tool_calls` if the client is to act."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None
    reasoning_content: str | None = None
    tool_calls: list[FunctionCall] | None = None


class CompletionChoice(BaseModel):
    """The only one."""

    index: Literal[0]
    message: CompletionMessage
    finish_reason: Literal["stop", "length", "content_filter", "tool_calls"]
    logprobs: dict[str, Any] | None


class CompletionUsage(BaseModel):
    """The tokens of the whole run."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ChatCompletion(BaseModel):
    """A completion; without `usage` if its run goes on."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage | None = None
