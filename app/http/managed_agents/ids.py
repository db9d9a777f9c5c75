"""Ids of events: made of the run and the position, so that each reading of a session has the same."""

import re
from typing import Final, NamedTuple

_FORM: Final = re.compile(r"sevt_(?P<run>[A-Za-z0-9_][A-Za-z0-9._:-]{0,127})~(?P<position>[0-9]{1,9})")


class EventPlace(NamedTuple):
    """Where the event of a run is that an id names."""

    run_id: str
    position: int


def event_id(run_id: str, place: object) -> str:
    """The id of what is at a position of a run, or has a name in it. No run id has a `~`."""
    return f"sevt_{run_id}~{place}"


def place_of(known: str) -> EventPlace | None:
    """The place that an id names; None if it is no id of an event at a position."""
    found = _FORM.fullmatch(known)
    return None if found is None else EventPlace(found["run"], int(found["position"]))


def question_id(run_id: str) -> str:
    """The id of the message that has started a run."""
    return event_id(run_id, "question")


def message_id(run_id: str, sent: str) -> str:
    """The id of a message to a running agent."""
    return event_id(run_id, f"message.{sent}")


def interrupt_id(run_id: str) -> str:
    """The id of the first interruption of a run."""
    return event_id(run_id, "interrupt")


def answer_id(asked: str) -> str:
    """The id of the answer to what an event has asked."""
    return f"{asked}.answer"


def run_of(known: str) -> str:
    """The run of an event."""
    return known.removeprefix("sevt_").partition("~")[0]
