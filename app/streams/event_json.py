"""An event as one line of ASCII JSON, the same wherever it is kept or sent, and back."""

import re
from typing import Any

from pydantic_core import PydanticSerializationError

from app.events import CLIENT_EVENTS, ClientEvent

_SURROGATE = re.compile("[\ud800-\udfff]")


def to_json(event: ClientEvent) -> str:
    r"""Write an event: `type` first, camelCase, nothing beyond ASCII, no line break.

    Total: what JSON cannot say becomes what it can, NaN and infinities null and half a
    surrogate pair U+FFFD, because one odd character must not silence a whole run.
    """
    try:
        return _dump(event)
    except PydanticSerializationError:
        return _dump(CLIENT_EVENTS.validate_python(_without_surrogates(event.model_dump())))


def from_json(line: str | bytes) -> ClientEvent:
    """Read back what `to_json` wrote."""
    return CLIENT_EVENTS.validate_json(line)


def _dump(event: ClientEvent) -> str:
    # Every event has a field of its own besides `type`, so the brace is followed by a name.
    rest = event.model_dump_json(by_alias=True, ensure_ascii=True, exclude={"type"})
    return f'{{"type":"{event.type}",{rest[1:]}'


def _without_surrogates(value: Any) -> Any:
    """Replace each lone surrogate by one character, so lengths stay what they were."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value
