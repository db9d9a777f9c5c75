"""Types shared by request parameters and bodies."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias, TypeVar
from uuid import UUID

from fastapi import Depends, Path, Query, Request
from pydantic import AfterValidator, BeforeValidator, Field

from app.errors import Invalid, NotFound
from app.http.admission.authentication import request_principal
from app.ids import STATE_KEY_PATTERN
from app.platform.pagination import MAX_PAGE, PageRequest
from app.requests.attribution import MAX_TAG_CHARS, TAG_NAME, Label, LabelFilter
from app.runs.conversations.service import ConversationNotFound

_Value = TypeVar("_Value")

_MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)


def parse_moment(text: object) -> datetime:
    """Parse an RFC 3339 time; dates and numbers are rejected because their zone or unit is ambiguous."""
    try:
        if isinstance(text, str) and _MOMENT.fullmatch(text.upper()):
            # Converted here because it overflows near the ends of the calendar.
            return datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError("must be a time like 2026-11-01T09:30:00Z; in a URL, + is written %2B")


MomentParam = Annotated[datetime, BeforeValidator(parse_moment)]

_Limit = Annotated[int, Query(ge=1, le=MAX_PAGE)]


async def _page(limit: _Limit = 50, cursor: str | None = None) -> PageRequest:
    return PageRequest.of(limit, cursor)


async def _page_of_uuids(limit: _Limit = 50, cursor: str | None = None) -> PageRequest:
    return PageRequest.of_uuids(limit, cursor)


PageParams = Annotated[PageRequest, Depends(_page)]
"""The parameters `limit` and `cursor` of a list."""
UuidPageParams = Annotated[PageRequest, Depends(_page_of_uuids)]
"""The same of a list whose ids are UUIDs."""


def drop_null(schema: dict[str, Any]) -> None:
    """Remove null from the schema of a field that may be omitted but not be null."""
    kinds = [kind for kind in schema.pop("anyOf") if kind != {"type": "null"}]
    schema.pop("default", None)
    schema |= kinds[0] if len(kinds) == 1 else {"anyOf": kinds}


def _require_value(value: _Value) -> _Value:
    # Called only for fields that were sent.
    if value is None:
        raise ValueError("must not be null")
    return value


NeverNull: TypeAlias = Annotated[
    _Value | None, AfterValidator(_require_value), Field(json_schema_extra=drop_null)
]
"""A field that may be omitted, but not be null."""

StorableText = Annotated[str, Field(pattern=r"^[^\x00]+$")]
"""PostgreSQL cannot store U+0000 in text."""


def uuid_in_path(alias: str, missing: type[NotFound]) -> Any:
    """The id in a path as a dependency: what is no UUID is not found."""

    async def read(given: Annotated[str, Path(alias=alias)]) -> UUID:
        try:
            return UUID(given)
        except ValueError:
            raise missing from None

    return Depends(read)


def name_in_path(alias: str, pattern: str, missing: type[NotFound]) -> Any:
    """The same of ids that clients choose: PostgreSQL would reject some malformed ones."""

    async def read(given: Annotated[str, Path(alias=alias)]) -> str:
        if not re.fullmatch(pattern, given):
            raise missing
        return given

    return Depends(read)


def state_key_in_path(alias: str) -> Any:
    return name_in_path(alias, STATE_KEY_PATTERN, ConversationNotFound)


async def _labels(
    request: Request,
    end_user: Annotated[Label | None, Query(alias="endUser")] = None,
    tag: Annotated[
        str | None,
        Query(
            pattern=rf"^{TAG_NAME}:[^\x00-\x1f\x7f]+$",
            max_length=MAX_TAG_CHARS,
            description="Name and value: `team:search`.",
        ),
    ] = None,
) -> LabelFilter:
    name, _, value = (tag or "").partition(":")
    own = (await request_principal(request)).end_user
    if own is not None and end_user not in {None, own}:
        raise Invalid.field("endUser", "must be that of the token, or left out")
    return LabelFilter(own or end_user, None if tag is None else (name, value))


LabelParams = Annotated[LabelFilter, Depends(_labels)]
"""The parameters `endUser` and `tag`; for a token its own end user."""
