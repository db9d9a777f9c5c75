"""The last scene of the demo: it must find a bill that is wrong."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from app.cli.demo.comparison import compare
from app.simulator.server import RecordedMessage
from runtally import Receipt

NOW = datetime.now(UTC)
USAGE = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}


def a_message(*, final: dict[str, int] | None = None, first_byte_at: float | None = 1.0) -> RecordedMessage:
    message = RecordedMessage("m", "sonnet", USAGE, first_byte_at=first_byte_at)
    message.final_usage = None if final is None else {**USAGE, **final}
    return message


def a_receipt(**fields: object) -> Receipt:
    usual = {
        "id": "1",
        "runId": "r",
        "attempt": 0,
        "usageUnitId": "m",
        "model": "sonnet",
        "basis": "final",
        "inputTokens": 10,
        "outputTokens": 20,
        "cacheReadTokens": 5,
        "cacheWrite5mTokens": 0,
        "cacheWrite1hTokens": 0,
        "costUsd": Decimal("0.1"),
        "chargedCredits": 1_000_000,
        "webSearchRequests": 0,
        "createdAt": NOW,
        "usedAt": NOW,
        "priceVersion": "1",
        "sourceReference": "r/0/m",
        "graphId": "g",
        "origin": "assistant",
        "outputEstimated": False,
    }
    return Receipt.model_validate({**usual, **fields})


@pytest.mark.parametrize(
    ("final", "fields", "is_equal"),
    [
        ({"output_tokens": 20}, {}, True),
        ({"output_tokens": 21}, {}, False),
        ({"output_tokens": 20}, {"inputTokens": 11}, False),
        ({"output_tokens": 20}, {"cacheReadTokens": 4}, False),
        ({"output_tokens": 20}, {"cacheWrite1hTokens": 1}, False),
        ({"output_tokens": 20}, {"model": "opus"}, False),
        (None, {"basis": "partial", "outputTokens": 7}, True),
        (None, {"basis": "partial", "outputTokens": 0}, False),
        (None, {"basis": "partial", "inputTokens": 9}, False),
        (None, {"basis": "final", "outputTokens": 7}, False),
    ],
)
def test_a_receipt_equals_its_message(
    final: dict[str, int] | None, fields: dict[str, object], *, is_equal: bool
) -> None:
    (compared,) = compare([a_message(final=final)], [a_receipt(**fields)])

    assert compared.is_equal is is_equal


def test_a_missing_receipt_and_one_too_many_are_found() -> None:
    message = a_message(final={"output_tokens": 20})

    (compared,) = compare([message], [])
    assert not compared.is_equal
    assert compare([a_message(first_byte_at=None)], []) == []
    for receipts in ([a_receipt(), a_receipt()], [a_receipt(usageUnitId="other")]):
        with pytest.raises(KeyError):
            compare([message], receipts)
