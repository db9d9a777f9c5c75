"""The base of all models of JSON that clients send or receive, and the times in requests."""

from datetime import UTC, datetime
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


def _is_none(value: object) -> bool:
    return value is None


LEFT_OUT_IF_NONE: Any = Field(exclude_if=_is_none)
"""The JSON does not have the field then."""


class WireModel(BaseModel):
    """camelCase in JSON, snake_case in Python; an unknown field is an error."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        extra="forbid",
        frozen=True,
    )


class InputModel(WireModel):
    """A model of client input: accepts the JSON names only."""

    model_config = ConfigDict(validate_by_name=False)

    @classmethod
    def of(cls, **fields: Any) -> Self:
        """Create one by its Python names."""
        return cls.model_validate(fields, by_name=True, by_alias=False)


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is out of range") from error


UtcMoment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""In UTC: near the ends of the calendar a time may not exist there."""
