"""Types shared by request parameters and bodies."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def parse_moment(text: object) -> datetime:
    """Parse an RFC 3339 time; dates and numbers are rejected because their zone or unit is ambiguous."""
    try:
        if isinstance(text, str) and _MOMENT.fullmatch(text.upper()):
            # Converted here because it overflows near the ends of the calendar.
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    message = "must be a time like 2026-11-01T09:30:00Z; in a URL, + is written %2B"
    raise ValueError(message)


MomentParam = Annotated[datetime, BeforeValidator(parse_moment)]


def drop_null(schema: dict[str, Any]) -> None:
    """Remove null from the schema of a field that may be omitted but not be null."""
    kinds = [kind for kind in schema.pop("anyOf") if kind != {"type": "null"}]
    schema.pop("default", None)
    schema |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


NEVER_NULL: Any = Field(json_schema_extra=drop_null)
"""Only changes the OpenAPI document; a validator must reject null."""

StorableText = Annotated[str, Field(pattern=r"^[^\x00]+$")]
"""PostgreSQL cannot store U+0000 in text."""
