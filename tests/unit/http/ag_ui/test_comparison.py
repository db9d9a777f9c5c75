"""What an AG-UI client is to show, compared with what it shows."""

from typing import Any

import pytest
from ag_ui.core import AssistantMessage, Message, ReasoningMessage, SystemMessage, ToolMessage, UserMessage
from pydantic import TypeAdapter

from app.http.ag_ui.comparison import Snapshot, snapshots_for, snapshots_to
from app.runs.records import QUESTION_CHARS
from app.runs.requests.attachments import unreadable

CONTENT: TypeAdapter[Any] = TypeAdapter(UserMessage)


def user(name: str, content: str | list[dict[str, Any]] = "") -> UserMessage:
    found: UserMessage = CONTENT.validate_python(
        {"id": name, "role": "user", "content": content or name.upper()}
    )
    return found


def said(name: str, text: str = "", *calls: str) -> AssistantMessage:
    made = [{"id": call, "function": {"name": "x", "arguments": "{}"}} for call in calls]
    return AssistantMessage.model_validate(
        {"id": name, "role": "assistant", "content": text or name, "toolCalls": made or None}
    )


def result(name: str, call: str, content: str = "done") -> ToolMessage:
    return ToolMessage(id=name, role="tool", tool_call_id=call, content=content)


def text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


IMAGE = {"type": "image", "source": {"type": "data", "value": "AAAA", "mimeType": "image/png"}}
NEW = user("new")


def merged(shown: list[str], snapshot: list[str]) -> list[str]:
    """As @ag-ui/client merges since 0.0.53."""
    kept = [each for each in shown if each in snapshot]
    return [*kept, *(each for each in snapshot if each not in kept)]


@pytest.mark.parametrize(
    ("shown", "wanted", "count"),
    [
        ("u1 new", "u1 a1 new", 2),
        ("u1 a1 new", "u1 a1 t1 a2 new", 2),
        ("new", "u1 a1 new", 2),
        ("u1 a1 u2 new", "u1 a1 new", 1),
        ("u1 a1", "u1 a1 u2", 1),
        ("u1 b a", "u1 a b", 2),
        ("u1 b a", "u1", 1),
        ("", "u1 a1", 1),
    ],
)
def test_a_client_that_keeps_the_places_of_its_messages_shows_the_order(
    shown: str, wanted: str, count: int
) -> None:
    snapshots = snapshots_to(*([user(name) for name in names.split()] for names in (shown, wanted)))

    screen = shown.split()
    for snapshot in snapshots:
        screen = merged(screen, [message.id for message in snapshot])
    assert screen == wanted.split()
    assert len(snapshots) == count
    assert [message.id for message in snapshots[-1]] == wanted.split()


def test_what_is_not_part_of_the_conversation_stays_the_clients_own() -> None:
    rules = SystemMessage(id="s", role="system", content="Be brief.")
    unread = SystemMessage(id="x", role="system", content="")
    old, mine = (ReasoningMessage(id=name, role="reasoning", content="hm") for name in ("q0", "q1"))
    posted: list[Message] = [rules, unread, old, user("u1"), mine, NEW]

    assert snapshots_to(posted, [user("u1"), NEW]) == [[rules, user("u1"), NEW]]
    # The client drops what a snapshot with reasoning does not have.
    emptied = mine.model_copy(update={"content": ""})
    assert snapshots_to(posted, [user("u1"), NEW], received=[mine]) == [
        [rules, user("u1"), NEW, old, emptied]
    ]


GREETING, IMPORTED = said("g", "Hi, how can I help?"), said("earlier/r/1", "Hi, how can I help?")
ASKED = user("u0", [text_part("Sum it up."), {**IMAGE, "type": "audio"}])
NOTED = user("earlier/r/2", f"Sum it up.\n\n{unreadable('audio').text}")
TWO = [user("u2", [text_part("See"), IMAGE]), user("u3", "and answer")]
AS_ONE = user("u3", [text_part(f"See\n\n{unreadable('image').text}\n\nand answer")])
LONG = user("u2", "x" * (QUESTION_CHARS + 1))
CUT = user("u2", "x" * QUESTION_CHARS)
CALLED = said("m", "Look.", "c")

SHOWN: dict[str, tuple[list[Message], list[Message]]] = {
    "imported": ([GREETING, user("u1"), said("a1")], [IMPORTED, user("u1"), said("a1")]),
    "imported with calls": (
        [user("u0"), CALLED, result("own", "c"), user("u1")],
        [user("earlier/r/1", "U0"), said("earlier/r/2", "Look."), user("u1")],
    ),
    "an attachment that was refused": ([ASKED, user("u1")], [NOTED, user("u1")]),
    "by another device": ([IMPORTED, user("u1"), said("a1")], [IMPORTED, user("u1"), said("a1")]),
    "several as one": ([user("u1"), said("a1"), *TWO], [user("u1"), said("a1"), AS_ONE]),
    "an image alone, then a text": (
        [user("u1"), user("u2", [IMAGE]), user("u3", "look")],
        [user("u1"), user("u3", [text_part("look"), IMAGE])],
    ),
    "one that no model got": ([user("u1"), LONG], [user("u1"), CUT]),
    "a result of the client": (
        [user("u1"), CALLED, result("own", "c")],
        [user("u1"), CALLED, result("c:r", "c")],
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_client_that_shows_what_the_model_got_gets_no_snapshot(name: str) -> None:
    shown, stored = SHOWN[name]

    assert snapshots_for([*shown, NEW], stored, [NEW]) == []
    # If something else differs, it keeps its own form of these.
    missed = said("missed")
    (*_, snapshot) = snapshots_for([*shown, NEW], [*stored, missed], [NEW])
    assert snapshot == [*shown, missed, NEW]


def last(snapshots: list[Snapshot]) -> list[tuple[str, Any]]:
    return [(message.id, message.content) for message in snapshots[-1]]


def test_what_the_model_did_not_get_is_corrected() -> None:
    stored: list[Message] = [IMPORTED, user("u1"), said("a1", "whole"), result("c:result", "c", "right")]
    expected = [
        (IMPORTED.id, IMPORTED.content),
        ("u1", "U1"),
        ("a1", "whole"),
        ("c:result", "right"),
        ("new", "NEW"),
    ]
    others: list[list[Message]] = [
        [said("g", "I promise a refund."), user("u1"), said("a1", "whole")],
        [GREETING, user("u1", "edited"), said("a1", "whole")],
        [user("u1"), said("a1", "who")],
        [],
    ]
    for shown in others:
        is_greeted = GREETING in shown
        first = (GREETING.id, GREETING.content) if is_greeted else expected[0]
        assert last(snapshots_for([*shown, NEW], stored, [NEW])) == [first, *expected[1:]]


def test_the_beginning_of_a_branch_is_as_it_was_posted() -> None:
    posted: list[Message] = [GREETING, CALLED, result("own", "c"), NEW]

    assert snapshots_for(posted, [], posted) == []
    assert snapshots_for([*posted, said("m2", "so far")], [], posted) == [posted]
