"""What is known of answers that clients post again."""

from dataclasses import dataclass

from app.ids import RunId


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """The answer of a run, and its conversation."""

    run_id: RunId
    state_key: str
    text: str
    is_last: bool
    """Whether no later run belongs to the conversation."""


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """The last answer in a posted history."""

    place: int
    """Its index in `ChatMessage.posted`."""
    message_id: str
    """The id of the user's message that it answers."""
    text: str

    def among(self, given: list[GivenAnswer]) -> GivenAnswer | None:
        """The run that gave it; rather one that nothing follows. The client may show more than its end."""
        shown = self.text.rstrip()
        same = [each for each in given if each.text.strip() and shown.endswith(each.text.strip())]
        return next((each for each in same if each.is_last), next(iter(same), None))
