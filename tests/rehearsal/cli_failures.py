"""How the CLI reports what the provider refuses, or does not finish."""

import asyncio
from collections.abc import Iterator

from claude_agent_sdk import AssistantMessage, Message, SystemMessage

from app.simulator.script import Answer, HttpError, Reply, Text
from app.simulator.server import Simulator
from tests.rehearsal.facts import Fact, names
from tests.rehearsal.started_cli import a_lean_client, asked, result_of

TOPIC = "CLI, failures"
_TOO_OLD = "Claude Code 2.0.0 does not support this model; version 9.0.0 or newer is required"

_ANSWERS: dict[str, Answer] = {
    "400": HttpError(400, "invalid_request_error"),
    "400, prompt is too long": HttpError(
        400, "invalid_request_error", "prompt is too long: 2 tokens > 1 maximum"
    ),
    "400, this CLI is too old for the model": HttpError(400, "invalid_request_error", _TOO_OLD),
    "401": HttpError(401, "authentication_error"),
    "402": HttpError(402, "billing_error"),
    "403": HttpError(403, "permission_error"),
    "404": HttpError(404, "not_found_error"),
    "413": HttpError(413, "request_too_large"),
    "429": HttpError(429, "rate_limit_error"),
    "500": HttpError(500, "api_error"),
    "529": HttpError(529, "overloaded_error"),
    "refusal": Reply([Text("no")], stop_reason="refusal"),
    "max_tokens": Reply([Text("and so")], stop_reason="max_tokens"),
    "pause_turn": Reply([Text("wait")], stop_reason="pause_turn"),
    "an empty answer": Reply([]),
    "an error event at the start": Reply([Text("one two")], error_after=(1, "overloaded_error")),
}
_USED_BY = "app/executors/claude_agent/result.py, app/executors/api_format/failures.py"


def failure_facts() -> Iterator[Fact]:
    """One fact for each kind of failure: requests, messages and the fields of the result."""
    yield from asyncio.run(_failed())


async def _failed() -> list[Fact]:
    # Each its own CLI: what one failure has taught it does not change the next.
    return [Fact(TOPIC, name, await _after(answer), _USED_BY) for name, answer in _ANSWERS.items()]


async def _after(answer: Answer) -> dict[str, str]:
    stderr: list[str] = []
    async with Simulator(lambda _: answer) as simulator, a_lean_client(simulator.url, stderr) as client:
        reported = _reported(await asked(client))
    return {
        **reported,
        "requests": str(len(simulator.requests)),
        **names(f"stderr {line}" for line in stderr),
    }


def _reported(messages: list[Message]) -> dict[str, str]:
    result = result_of(messages)
    errors = [
        message.error for message in messages if isinstance(message, AssistantMessage) and message.error
    ]
    return {
        "subtype": result.subtype,
        "is_error": str(result.is_error),
        "terminal_reason": str(result.terminal_reason),
        "stop_reason": str(result.stop_reason),
        "api_error_status": str(result.api_error_status),
        "error of the last message": str(errors[-1] if errors else None),
        **names(f"system message {m.subtype}" for m in messages if isinstance(m, SystemMessage)),
    }
