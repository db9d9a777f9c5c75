"""Types shared by all JSON responses: camelCase names, money as decimal strings, times in UTC."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, PlainSerializer
from pydantic.alias_generators import to_camel

from app.requests.wire_models import LEFT_OUT_IF_NONE

Item = TypeVar("Item")
Record = TypeVar("Record")


def utc_text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


Money = Annotated[Decimal, PlainSerializer(lambda amount: f"{amount:.10f}", return_type=str)]


Moment = Annotated[datetime, PlainSerializer(utc_text, return_type=str)]


AsOf = Annotated[
    Moment | None,
    LEFT_OUT_IF_NONE,
    Field(
        description="What was stored until then is included; left out: everything, until now. "
        "The server reads this from a replica of its database.",
    ),
]


class ResponseModel(BaseModel):
    """Base of all response bodies: camelCase aliases, built from attributes."""

    model_config = ConfigDict(
        alias_generator=to_camel, validate_by_name=True, from_attributes=True, frozen=True
    )

    @classmethod
    def built_from(cls, *records: object, **computed: Any) -> Self:
        names = cls.model_fields.keys()
        found = {name: getattr(each, name) for each in records for name in names if hasattr(each, name)}
        return cls.model_validate({**found, **computed})


class Page(ResponseModel, Generic[Item]):
    """One page of a list; `nextCursor` is null on the last page."""

    items: Sequence[Item]
    next_cursor: str | None = None
    as_of: AsOf = None

    @classmethod
    def of(
        cls,
        found: tuple[Sequence[Record], str | None],
        shown: Callable[[Record], Item],
        *,
        as_of: datetime | None = None,
    ) -> "Page[Item]":
        """A page of records as they are `shown`, with the cursor of the next page."""
        records, next_cursor = found
        return cls(items=[shown(each) for each in records], next_cursor=next_cursor, as_of=as_of)
