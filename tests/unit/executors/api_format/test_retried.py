"""Which part of a message that broke off is discarded."""

from app.events import MessageDiscarded, TextDelta, ThinkingDelta
from app.executors.api_format.retried import WrittenMessage, retrying


def test_what_was_kept_is_repeated_under_the_same_id() -> None:
    written = WrittenMessage("m", None)
    written.add(ThinkingDelta(message_id="m", delta="hm"))
    written.add(TextDelta(message_id="m", delta="It is so"))
    written.keep(thinking="hm")

    assert list(written.discarded_events(show_thinking=True)) == [
        MessageDiscarded(message_id="m"),
        ThinkingDelta(message_id="m", delta="hm"),
    ]
    written.keep(text="It is so")
    assert list(written.discarded_events(show_thinking=True)) == []


def test_a_status_has_only_numbers() -> None:
    status = retrying(attempt=True, delay_ms="soon")

    assert (status.attempt, status.in_s) == (None, None)
