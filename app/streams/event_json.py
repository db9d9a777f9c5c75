"""Events as one line of ASCII JSON, the same in storage and on the wire."""

from pydantic_core import PydanticSerializationError

from app.events import CLIENT_EVENTS, ClientEvent
from app.storable import storable


def to_json(event: ClientEvent) -> str:
    r"""Write an event: `type` first, camelCase, nothing beyond ASCII, no line break.

    Never fails: NaN and infinities become null, and an unpaired surrogate becomes U+FFFD, because one
    invalid character must not stop a run's stream.
    """
    try:
        return _dump(event)
    except PydanticSerializationError:
        return _dump(CLIENT_EVENTS.validate_python(storable(event.model_dump())))


def from_json(line: str | bytes) -> ClientEvent:
    """Parse an event that `to_json` wrote, in this release or in a later one with more fields."""
    return CLIENT_EVENTS.validate_json(line, extra="ignore")


def _dump(event: ClientEvent) -> str:
    # Every event has a field besides `type`, so the brace is followed by a name.
    rest = event.model_dump_json(by_alias=True, ensure_ascii=True, exclude={"type"})
    return f'{{"type":"{event.type}",{rest[1:]}'
