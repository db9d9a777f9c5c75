"""Which attachment a refusal of the provider is about, in our words; pure."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.conversations.neutral_transcript import is_attachment
from app.events import RunWarning

_PATH: Final = re.compile(r"\bmessages\.(\d{1,6})\.content\.(\d{1,6})\b")
"""How a refusal begins that is about one block, and how those in its `details.paths` are named."""


def is_about_earlier(reason: str, messages: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the reason names messages, and not the last of these."""
    named = {int(message) for message, _ in _PATH.findall(reason)}
    return bool(named) and len(messages) - 1 not in named


def refused_part(reason: str, messages: Sequence[Mapping[str, Any]]) -> RunWarning | None:
    """A warning about the attachments of the last of these messages; None if it has none.

    Of a reason without names (`Could not process image`) any of them may be the cause.
    """
    attached = {
        place: block["type"] for place, block in enumerate(messages[-1]["content"]) if is_attachment(block)
    }
    last = len(messages) - 1
    named = {int(place) for message, place in _PATH.findall(reason) if int(message) == last} & attached.keys()
    parts = {
        str(number): f"attachment {number} ({kind})"
        for number, (place, kind) in enumerate(attached.items(), start=1)
        if place in named or not named
    }
    refused = (", " if named else " or ").join(parts.values())
    message = f"The model's provider has refused {refused} of the message."
    return RunWarning(code="attachment_refused", message=message, names=[*parts]) if parts else None
