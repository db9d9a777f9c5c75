"""Text of a discarded message: what the next message repeats is not shown twice."""

from collections.abc import AsyncGenerator, Sequence
from itertools import pairwise

import pytest

from app.events import ClientEvent, MessageDiscarded, TextDelta
from app.http.streaming.discarded_entries import discarded_in, without_discarded
from app.streams.port import LogEntry
from tests.unit.http.ai_sdk.parts import a_call, a_text, a_thought, parts_of
from tests.unit.http.events import DONE, STARTED, entries_of

DISCARDED = MessageDiscarded(message_id="m")
ONCE = [("It is so", False)]


def shown(events: list[ClientEvent]) -> list[tuple[str, bool]]:
    """The texts of a client, and whether each is marked as discarded."""
    texts: dict[str, str] = {}
    marked: set[str] = set()
    for part in parts_of(STARTED, *events, DONE):
        match part["type"]:
            case "text-start":
                assert part["id"] not in texts
                texts[part["id"]] = ""
            case "text-delta":
                texts[part["id"]] += part["delta"]
            case "text-end" if part.get("providerMetadata") == {"runtally": {"discarded": True}}:
                marked.add(part["id"])
    return [(text, name in marked) for name, text in texts.items()]


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([a_text("n", "It "), a_text("n", "is noon."), a_text("n", " So.")], [("It is noon. So.", False)]),
        ([a_text("n", "It is")], [("It is", False)]),
        ([a_thought("n", "hm"), a_text("n", "It is noon.")], [("It is noon.", False)]),
        ([a_text("n", "I"), a_text("n", "n Rome")], [("It is", True), ("In Rome", False)]),
        ([a_text("n", "It")], [("It is", True), ("It", False)]),
        ([a_text("n", "It"), a_call("t")], [("It is", True), ("It", False)]),
        ([a_call("t")], [("It is", True)]),
        ([], [("It is", True)]),
        ([a_text("n", "It is"), MessageDiscarded(message_id="n"), a_text("o", "It is so")], ONCE),
        ([a_text("n", "It"), MessageDiscarded(message_id="n"), a_text("o", "It is so")], ONCE),
        ([MessageDiscarded(message_id="other"), a_text("n", "It is so")], ONCE),
    ],
)
def test_a_text_is_shown_once_or_marked(events: list[ClientEvent], expected: list[tuple[str, bool]]) -> None:
    assert shown([a_text("m", "It "), a_text("m", "is"), DISCARDED, *events]) == expected


def test_thinking_that_is_discarded_is_marked() -> None:
    parts = parts_of(STARTED, a_thought("m", "hm"), DISCARDED, a_thought("n", "hm"), a_text("n", "It"), DONE)

    ends = [part for part in parts if part["type"] == "reasoning-end"]
    assert [end.get("providerMetadata") for end in ends] == [{"runtally": {"discarded": True}}, None]


async def test_a_replay_has_no_discarded_text() -> None:
    events: list[ClientEvent] = [
        STARTED,
        a_thought("m", "hm"),
        a_text("m", "It is"),
        DISCARDED,
        a_text("n", "Noon."),
        a_text("m", "!"),
    ]
    entries = entries_of(*events)

    async def log(*sizes: int) -> AsyncGenerator[Sequence[LogEntry], None]:
        for start, end in pairwise([0, *sizes, len(entries)]):
            yield entries[start:end]

    async def texts(*sizes: int, **known: dict[str, int]) -> list[str]:
        batches = [batch async for batch in without_discarded(log(*sizes), **known)]
        return [
            entry.event.delta for batch in batches for entry in batch if isinstance(entry.event, TextDelta)
        ]

    assert await texts() == ["Noon.", "!"]
    assert await texts(3) == ["It is", "Noon.", "!"]
    assert await texts(3, known=discarded_in(entries)) == ["Noon.", "!"]
    assert [entry.position async for batch in without_discarded(log()) for entry in batch] == [1, 4, 5, 6]
