"""How `runtally run` and the demo show what happens in a run."""

import io
from datetime import UTC, datetime
from typing import Any

from app.cli.client import EventScreen
from app.cli.terminal import Terminal
from runtally import Event, TextDelta, ThinkingDelta, UnknownEvent
from runtally.events import AssistantFinal, PermissionRequest, Step, ToolCallResult

STORY = (
    "A parcel\u00a0left the harbour at dawn, and nothing about its way to the north was short.\n\n    1 kg\n"
    * 3
)


def shown(*events: Event) -> list[str]:
    """The lines on a terminal of 80 columns."""
    console = Terminal(file=io.StringIO(), force_terminal=True, color_system=None, width=80)
    screen = EventScreen(console)
    for event in events:
        screen.event(event)
    screen.end_text()
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


def told(text: str, *, of: int = 1, **fields: Any) -> list[TextDelta]:
    """The text in pieces of so many characters."""
    pieces = [text[start : start + of] for start in range(0, len(text), of)]
    return [TextDelta(message_id="m", delta=piece, **fields) for piece in pieces]


def test_a_streamed_text_is_whole_and_no_line_is_wider_than_the_terminal() -> None:
    for size in (5, 40, 10_000):
        lines = shown(*told(STORY, of=size))

        assert "".join("".join(lines).split()) == "".join(STORY.split())
    # Of a word that comes in two pieces the first is shown at once, and the second beside it.
    assert max(map(len, lines)) <= 80
    assert lines.count("      1 kg") == 3


def test_words_are_broken_between_words() -> None:
    words = "supercalifragilistic " * 20

    assert {word for line in shown(*told(words, of=len(words))) for word in line.split()} == {
        words.split(maxsplit=1)[0]
    }


def test_every_event_is_a_line_below_the_text_unless_it_repeats_one() -> None:
    lines = shown(
        ThinkingDelta(message_id="m", delta="Hm."),
        *told("It is", of=2),
        Step(step_index=1, step_budget=None),
        ToolCallResult(tool_call_id="t", result={"usd": "4.50"}, is_error=False, parent_tool_call_id="p"),
        PermissionRequest(
            request_id="r", tool_call_id="t", tool_name="book", args={}, expires_at=datetime.now(UTC)
        ),
        UnknownEvent(type="new", data={"type": "new", "x": 1}),
        AssistantFinal(content="It is"),
        AssistantFinal(content="", structured_output={"usd": 1}),
    )

    assert lines == [
        *("  Hm.", "  It is", '  │ ← {"usd": "4.50"}', "  ? book needs consent", '  [new] {"x": 1}'),
        '  [assistant_final] {"content": "", "structuredOutput": {"usd": 1}}',
    ]
