"""Messages that the CLI drops and requests again."""

from typing import Any

import pytest
from claude_agent_sdk import SystemMessage, TextBlock, ThinkingBlock

from app.events import MessageDiscarded, OutputEvent, Status, TextDelta, ThinkingDelta
from tests.unit.executors.claude_agent.frames import assistant, ended, started, stopped, stream, text
from tests.unit.executors.claude_agent.test_mapper import responded

FIRST = TextDelta(message_id="msg_1", delta="It is")
SECOND = TextDelta(message_id="msg_2", delta="It is noon")
NEXT = (started("msg_2"), text("It is noon"))
VOID = MessageDiscarded(message_id="msg_1")


def thought(piece: str) -> Any:
    delta = {"type": "thinking_delta", "thinking": piece}
    return stream({"type": "content_block_delta", "index": 0, "delta": delta})


@pytest.mark.parametrize(
    ("frames", "expected"),
    [
        ([started(), text("It is"), stopped(), *NEXT], [FIRST, VOID, SECOND]),
        ([started(), text("It is"), ended(None), stopped(), *NEXT], [FIRST, VOID, SECOND]),
        ([started(), text("It is"), ended(), stopped(), *NEXT], [FIRST, SECOND]),
        ([started(), text("It is"), assistant(TextBlock("It is")), stopped(), *NEXT], [FIRST, SECOND]),
        ([started(), text("It is"), stopped()], [FIRST]),
        ([started(), stopped(), *NEXT], [SECOND]),
        (
            [started(), text("It is"), stopped(), assistant(TextBlock("It is noon"), message_id="msg_2")],
            [FIRST, VOID, SECOND],
        ),
        (
            [started(), text("It is"), text(" so"), assistant(TextBlock("It is")), stopped(), *NEXT],
            [FIRST, TextDelta(message_id="msg_1", delta=" so"), VOID, FIRST, SECOND],
        ),
    ],
    ids=["drop", "given-up", "complete", "kept", "end", "empty", "unstreamed", "partly-kept"],
)
def test_what_is_dropped_is_discarded_when_the_next_message_begins(
    frames: list[Any], expected: list[OutputEvent]
) -> None:
    assert responded(*frames) == expected


@pytest.mark.parametrize(
    ("show_thinking", "kept", "expected"),
    [
        (True, "hm", []),
        (True, "", [VOID]),
        (False, "", []),
    ],
)
def test_thinking_counts_if_clients_get_it(
    *, show_thinking: bool, kept: str, expected: list[OutputEvent]
) -> None:
    blocks = [assistant(ThinkingBlock(kept, "sig"))] if kept else []
    events = responded(started(), thought("hm"), *blocks, stopped(), *NEXT, show_thinking=show_thinking)

    assert [event for event in events if not isinstance(event, ThinkingDelta)] == [*expected, SECOND]


@pytest.mark.parametrize(
    ("subtype", "data", "expected"),
    [
        (
            "api_retry",
            {"attempt": 2, "retry_delay_ms": 612.4, "error": "secret"},
            {"label": "Retrying", "attempt": 2, "in_s": 0.612},
        ),
        ("api_retry", {"attempt": "x", "retry_delay_ms": None}, {"label": "Retrying"}),
        ("model_fallback", {"error": "secret"}, {"label": "Retrying with another model"}),
    ],
)
def test_what_the_cli_reports_of_retries_has_no_text_of_the_provider(
    subtype: str, data: dict[str, Any], expected: dict[str, Any]
) -> None:
    events = responded(SystemMessage(subtype=subtype, data=data))

    assert events == [Status(phase="retrying", **expected)]
