"""The last scene of the demo: it must find a bill that is wrong."""

from typing import Any

import pytest

from app.cli.demo.comparison import compare
from app.simulator.server import RecordedMessage
from runtally import Receipt

USAGE = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}


def a_message(*, final: dict[str, int] | None = None, first_byte_at: float | None = 1.0) -> RecordedMessage:
    message = RecordedMessage("m", "sonnet", USAGE, first_byte_at=first_byte_at)
    message.final_usage = None if final is None else {**USAGE, **final}
    return message


def a_receipt(**fields: Any) -> Receipt:
    """As far as it is compared."""
    usual: dict[str, Any] = {
        "usage_unit_id": "m",
        "model": "sonnet",
        "basis": "final",
        "input_tokens": 10,
        "output_tokens": 20,
        "cache_read_tokens": 5,
        "cache_write_5m_tokens": 0,
        "cache_write_1h_tokens": 0,
    }
    return Receipt.model_construct(**{**usual, **fields})


@pytest.mark.parametrize(
    ("final", "fields", "is_equal"),
    [
        ({"output_tokens": 20}, {}, True),
        ({"output_tokens": 21}, {}, False),
        ({"output_tokens": 20}, {"input_tokens": 11}, False),
        ({"output_tokens": 20}, {"cache_read_tokens": 4}, False),
        ({"output_tokens": 20}, {"cache_write_1h_tokens": 1}, False),
        ({"output_tokens": 20}, {"model": "opus"}, False),
        (None, {"basis": "partial", "output_tokens": 7}, True),
        (None, {"basis": "partial", "output_tokens": 0}, False),
        (None, {"basis": "partial", "input_tokens": 9}, False),
        (None, {"basis": "final", "output_tokens": 7}, False),
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
    for receipts in ([a_receipt(), a_receipt()], [a_receipt(usage_unit_id="other")]):
        with pytest.raises(KeyError):
            compare([message], receipts)
