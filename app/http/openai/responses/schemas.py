"""JSON of responses, as clients of OpenAI's API read them."""

from typing import Any, Literal

from pydantic import BaseModel, Field

from app.http.openai.schemas import CachedTokens, ReasoningTokens


class ResponseItem(BaseModel):
    """What was asked or answered, with the fields of its type."""

    id: str
    type: Literal[
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "mcp_approval_request",
        "mcp_approval_response",
    ]
    role: Literal["user", "assistant", "developer"] | None = None
    status: Literal["in_progress", "completed", "incomplete"] | None = None
    content: list[dict[str, Any]] | None = None
    summary: list[dict[str, Any]] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    output: str | None = None
    server_label: str | None = None
    approval_request_id: str | None = None
    approve: bool | None = None


class ItemList(BaseModel):
    """A page of items; without ids if it is empty."""

    object: Literal["list"]
    data: list[ResponseItem]
    first_id: str | None
    last_id: str | None
    has_more: bool


class ResponseFailure(BaseModel):
    """Why there is no answer."""

    code: str
    message: str


class IncompleteDetails(BaseModel):
    """Why the answer is incomplete."""

    reason: Literal["max_output_tokens", "content_filter"]


class ConversationOfResponse(BaseModel):
    """The conversation that the next response can name."""

    id: str


class ResponseUsage(BaseModel):
    """The tokens of the whole run."""

    input_tokens: int
    input_tokens_details: CachedTokens
    output_tokens: int
    output_tokens_details: ReasoningTokens
    total_tokens: int


class OpenAiResponse(BaseModel):
    """A response; without `usage` if its run goes on."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]
    error: ResponseFailure | None
    incomplete_details: IncompleteDetails | None
    model: str
    output: list[ResponseItem]
    conversation: ConversationOfResponse | None
    metadata: dict[str, str]
    instructions: str | None
    parallel_tool_calls: bool
    tool_choice: str
    tools: list[dict[str, Any]] = Field(max_length=0)
    temperature: float | None
    top_p: float | None
    usage: ResponseUsage | None


class DeletedResponse(BaseModel):
    """What was deleted."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True
