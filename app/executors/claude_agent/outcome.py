"""How a run ended: the SDK's result message -> our answer or our error; pure.

`subtype` alone lies: every API error is reported as a "success". A run has succeeded when
`is_error` is false and `terminal_reason` is "completed".
"""

from typing import Any

import jsonschema
from claude_agent_sdk import ResultMessage
from claude_agent_sdk.types import AssistantMessageError

from app.events import AssistantFinal
from app.executors.port import ExecutionFailed
from app.executors.text import whole, whole_json
from app.graph import ResponseFormat

_PROVIDER_REFUSES = {401, 402, 403}
_REQUEST_IS_INVALID = {400, 404, 413}
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500
_ANSWERED = {"end_turn", "stop_sequence", "tool_use"}
"""Stop reasons of a whole answer; `tool_use` is how a structured answer ends."""


def answer(result: ResultMessage, wanted: ResponseFormat | None) -> AssistantFinal:
    """The answer of a run that succeeded; raises `ExecutionFailed` for one that did not end well."""
    if result.stop_reason is not None and result.stop_reason not in _ANSWERED:
        raise ExecutionFailed("internal")
    structured = whole_json(result.structured_output)
    if wanted is not None and not _matches(structured, wanted.schema_):
        raise ExecutionFailed("internal")
    return AssistantFinal(content=whole(result.result or ""), structured_output=structured)


def has_succeeded(result: ResultMessage) -> bool:
    """Whether the run came to its own end."""
    return not result.is_error and result.terminal_reason == "completed"


def failure(result: ResultMessage, last_error: AssistantMessageError | None) -> ExecutionFailed:
    """Why a run failed; `last_error` is the error of its last assistant message."""
    if result.subtype == "error_max_turns" or result.terminal_reason == "max_turns":
        return ExecutionFailed("timeout", "max_turns")
    if result.subtype == "error_max_budget_usd" or result.terminal_reason == "budget_exhausted":
        return ExecutionFailed("rate_limit", "budget")
    status = result.api_error_status
    if status is not None:
        return _api_failure(status)
    # No status: the connection was refused or lost, or the answer itself was no good.
    if last_error == "server_error":
        return ExecutionFailed("provider_unavailable")
    if last_error == "authentication_failed":
        return ExecutionFailed("provider_unavailable")
    return ExecutionFailed("internal")


def _api_failure(status: int) -> ExecutionFailed:
    if status in _PROVIDER_REFUSES or status >= _SERVER_ERROR:
        return ExecutionFailed("provider_unavailable")
    if status in _REQUEST_IS_INVALID:
        return ExecutionFailed("invalid_request")
    if status == _TOO_MANY_REQUESTS:
        return ExecutionFailed("rate_limit")
    return ExecutionFailed("internal")


def _matches(value: Any, schema: dict[str, Any]) -> bool:
    if value is None:
        return False
    valid: bool = jsonschema.Draft202012Validator(schema).is_valid(value)
    return valid
