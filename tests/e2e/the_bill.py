"""The bill held against the simulator's own record of what it sent, id by id, number by number."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.simulator.server import RecordedMessage
from app.usage.provider import token_usage
from app.usage.records import TokenUsage

NUMBERS = {
    "inputTokens": "input_tokens",
    "outputTokens": "output_tokens",
    "cacheReadTokens": "cache_read_tokens",
    "cacheWrite5mTokens": "cache_write_5m_tokens",
    "cacheWrite1hTokens": "cache_write_1h_tokens",
    "webSearchRequests": "web_search_requests",
}


def wire(sent: Iterable[RecordedMessage]) -> dict[str, tuple[str, str, TokenUsage]]:
    """What the receipts must say: model, basis and numbers by message id."""
    return {
        message.message_id: (message.model, *_numbers(message))
        for message in sent
        if message.first_byte_at is not None
    }


def bill(receipts: Iterable[Mapping[str, Any]]) -> dict[str, tuple[str, str, TokenUsage]]:
    """What the receipts say; a message with two of them is an error."""
    found: dict[str, tuple[str, str, TokenUsage]] = {}
    for receipt in receipts:
        assert receipt["usageUnitId"] not in found, "charged twice"
        usage = TokenUsage(**{ours: receipt[theirs] for theirs, ours in NUMBERS.items()})
        found[receipt["usageUnitId"]] = (receipt["model"], receipt["basis"], usage)
        assert receipt["outputEstimated"] == (receipt["basis"] == "partial")
    return found


def _numbers(message: RecordedMessage) -> tuple[str, TokenUsage]:
    if message.final_usage is not None:
        return "final", token_usage(message.final_usage)
    # The scripted provider counts one token a word.
    received = len(message.sent_output.split())
    output = max(message.start_usage.get("output_tokens", 0), received)
    return "partial", token_usage({**message.start_usage, "output_tokens": output})
