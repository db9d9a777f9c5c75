"""Where a message belongs that a chat client posts with its view of the conversation; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.conversations.branching.records import After, Place
from app.ids import RunId


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of the last posted message, and the posted messages that the conversation lacks."""

    place: Place | None
    """None: at the end of the current branch, whatever that is."""
    first_new: int
    """The index of the first posted message that is new."""


def place_message(
    posted: Sequence[str], *, known: Mapping[str, RunId], is_whole_view: bool = True
) -> Placement:
    """The place of a message; `posted` are the ids of all posted messages, of which it is the last.

    It follows the last posted message before it that the conversation knows, whatever is later in the
    conversation. If it knows none, the posted view is all that the person sees: the beginning of a branch.
    `is_whole_view`: the client always posts its view, so that no earlier message means an empty chat.
    """
    *earlier, _ = posted
    for index in reversed(range(len(earlier))):
        if (run_id := known.get(earlier[index])) is not None:
            return Placement(After(run_id), index + 1)
    return Placement(After(None) if earlier or is_whole_view else None, 0)
