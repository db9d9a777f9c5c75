"""Where a message belongs that a chat client posts with its view of the conversation; pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from app.conversations.branching.records import After, Place
from app.ids import RunId


@dataclass(frozen=True, slots=True)
class KnownMessages:
    """What the conversation has of the posted messages."""

    runs: Mapping[str, RunId]
    """Their runs, by posted id."""
    unshown: Collection[str] = frozenset()
    """The user's messages whose answer the client does not show any more."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of the last posted message, and the posted messages that the conversation lacks."""

    place: Place | None
    """None: at the end of the current branch, whatever that is."""
    first_new: int
    """The index of the first posted message that is new."""


def place_message(posted: Sequence[str], *, known: KnownMessages, is_whole_view: bool = True) -> Placement:
    """The place of a message; `posted` are the ids of all posted messages, of which it is the last.

    It follows the last posted message before it that the conversation knows, whatever is later in the
    conversation. If it knows none, the posted view is all that the person sees: the beginning of a branch.
    A message whose answer is not shown any more is asked again with the new one, in its own place.
    `is_whole_view`: the client always posts its view, so that no earlier message means an empty chat.
    """
    *earlier, _ = posted
    for index in reversed(range(first_unshown(earlier, known.unshown))):
        if (run_id := known.runs.get(earlier[index])) is not None:
            return Placement(After(run_id), index + 1)
    return Placement(After(None) if earlier or is_whole_view else None, 0)


def first_unshown(earlier: Sequence[str], unshown: Collection[str]) -> int:
    """The index of the first message whose answer is not shown; the number of messages if there is none."""
    return next((index for index, each in enumerate(earlier) if each in unshown), len(earlier))
