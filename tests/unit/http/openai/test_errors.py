"""Errors in the form of OpenAI's API."""

import pytest

from app.http.middleware import Message
from app.http.openai.errors import PATH, OpenAiErrors


def translated(path: str, field: str) -> Message:
    problem = {"status": 422, "code": "invalid_request", "detail": f"{field}: is wrong"}
    errors = [{"field": field, "message": "is wrong"}]
    found = OpenAiErrors().translate({**problem, "errors": errors, "instance": path}, {})
    error: Message = found.body["error"]
    return error


@pytest.mark.parametrize(
    ("field", "in_chat", "in_response"),
    [
        ("responseFormat.schema", "response_format.json_schema.schema", "text.format.schema"),
        ("effort", "reasoning_effort", "reasoning.effort"),
        ("thinkingBudgetTokens", "reasoning_effort", "reasoning.effort"),
        ("endUser", "user", "user"),
        ("messages.0.content", "messages.0.content", "messages.0.content"),
    ],
)
def test_an_error_names_the_field_that_was_posted(field: str, in_chat: str, in_response: str) -> None:
    chat = translated(f"{PATH}/chat/completions", field)
    response = translated(f"{PATH}/responses", field)

    assert (chat["param"], chat["message"]) == (in_chat, f"{in_chat}: is wrong")
    assert (response["param"], response["message"]) == (in_response, f"{in_response}: is wrong")
