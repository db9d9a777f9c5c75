"""Where a posted message belongs."""

from dataclasses import replace

import pytest

from app.conversations.branching.placement import KnownMessages, Placement, place_message
from app.conversations.branching.records import After
from app.ids import RunId

KNOWN = KnownMessages({"u1": RunId("r1"), "a1": RunId("r1"), "u2": RunId("r2"), "a2": RunId("r2")})
BEGINNING = After(None)


def after(run_id: str) -> After:
    return After(RunId(run_id))


@pytest.mark.parametrize(
    ("view", "place", "first_new"),
    [
        ("u1 a1 u2 a2 new", after("r2"), 4),
        # Regenerated, or edited under the same id: what it is itself does not count.
        ("u1 a1 u2", after("r1"), 2),
        ("u1 a1 new", after("r1"), 2),
        # An answer of which the client has nothing, or something of its own.
        ("u1 new", after("r1"), 1),
        ("u1 own new", after("r1"), 1),
        # A message that was refused, and then another one.
        ("u1 a1 refused new", after("r1"), 2),
        # The first message, regenerated or edited; an empty screen.
        ("u1", BEGINNING, 0),
        ("new", BEGINNING, 0),
        # A history from elsewhere.
        ("x y new", BEGINNING, 0),
        # The last known one decides, whatever is before it.
        ("x a1 y new", after("r1"), 2),
        ("u2 a1 new", after("r1"), 2),
    ],
)
def test_a_message_follows_the_last_known_one_before_it(view: str, place: After, first_new: int) -> None:
    assert place_message(view.split(), known=KNOWN) == Placement(place, first_new)


def test_who_posts_no_view_continues_at_the_end() -> None:
    assert place_message(["new"], known=KNOWN, is_whole_view=False) == Placement(None, 0)
    assert place_message(["a1", "new"], known=KNOWN, is_whole_view=False) == Placement(after("r1"), 1)
    assert place_message(["x", "new"], known=KNOWN, is_whole_view=False) == Placement(BEGINNING, 0)


@pytest.mark.parametrize(
    ("view", "place", "first_new"),
    [
        # The answer was taken away to be regenerated, or its message was edited, and that was refused.
        ("u1 a1 u2 new", after("r1"), 2),
        ("u1 a1 refused u2 new", after("r1"), 2),
        ("u1 a1 u2 refused new", after("r1"), 2),
        ("u2 new", BEGINNING, 0),
        ("x y u2 new", BEGINNING, 0),
        # The message itself, regenerated.
        ("u1 a1 u2", after("r1"), 2),
    ],
)
def test_a_message_whose_answer_is_not_shown_any_more_is_asked_again(
    view: str, place: After, first_new: int
) -> None:
    known = replace(KNOWN, unshown=frozenset({"u2"}))

    assert place_message(view.split(), known=known) == Placement(place, first_new)
