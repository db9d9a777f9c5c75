"""An event as one line of ASCII JSON, the same wherever it is kept or sent, and back."""

from pydantic_core import PydanticSerializationError

from app.events import CLIENT_EVENTS, ClientEvent
from app.storable import storable


def to_json(event: ClientEvent) -> str:
    r"""Write an event: `type` first, camelCase, nothing beyond ASCII, no line break.

    Total: what JSON cannot say becomes what it can, NaN and infinities null and half a
    surrogate pair U+FFFD, because one odd character must not silence a whole run.
    """
    try:
        return _dump(event)
    except PydanticSerializationError:
        return _dump(CLIENT_EVENTS.validate_python(storable(event.model_dump())))


def from_json(line: str | bytes) -> ClientEvent:
    """Read back what `to_json` wrote."""
    return CLIENT_EVENTS.validate_json(line)


def _dump(event: ClientEvent) -> str:
    # Every event has a field of its own besides `type`, so the brace is followed by a name.
    rest = event.model_dump_json(by_alias=True, ensure_ascii=True, exclude={"type"})
    return f'{{"type":"{event.type}",{rest[1:]}'
