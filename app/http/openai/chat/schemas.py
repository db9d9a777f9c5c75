"""JSON of completions, as clients of OpenAI's API read them."""

from typing import Any, Literal

from pydantic import BaseModel

from app.http.openai.schemas import CachedTokens, ReasoningTokens


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
    prompt_tokens_details: CachedTokens
    completion_tokens: int
    completion_tokens_details: ReasoningTokens
    total_tokens: int


class ChatCompletion(BaseModel):
    """A completion; without `usage` if its run goes on."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage | None = None
