"""Types of query parameters."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def read_moment(text: object) -> datetime:
    """Read an RFC 3339 time; neither days nor numbers, whose zone or unit could only be guessed."""
    try:
        if isinstance(text, str) and _MOMENT.fullmatch(text.upper()):
            # In UTC at once: near the ends of the calendar that overflows.
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    message = "must be a time like 2026-11-01T09:30:00Z; in a URL, + is written %2B"
    raise ValueError(message)


Moment = Annotated[datetime, BeforeValidator(read_moment)]


def without_null(schema: dict[str, Any]) -> None:
    """Take null away from what may be left out, and is refused when it is sent as null."""
    kinds = [kind for kind in schema.pop("anyOf") if kind != {"type": "null"}]
    schema.pop("default", None)
    schema |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


NEVER_NULL: Any = Field(json_schema_extra=without_null)
"""For the readers of the OpenAPI document; a validator refuses it."""

StoredText = Annotated[str, Field(pattern=r"^[^\x00]+$")]
"""PostgreSQL has no text with U+0000 in it."""
