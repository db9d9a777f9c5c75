"""core__get_current_time: the current time in any time zone."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from runtally import ToolContext, ToolOutput, tool


class CurrentTimeArgs(BaseModel):
    """A time zone."""

    model_config = ConfigDict(extra="forbid")

    timezone: str = Field(
        default="UTC",
        max_length=64,
        description="IANA time zone name, for example Europe/Berlin or America/New_York.",
    )

    @field_validator("timezone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        _zone(name)
        return name


class CurrentTime(BaseModel):
    """A time and its time zone."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)

    iso8601: str
    timezone: str
    utc_offset: str
    """For example `+02:00`."""


@tool(
    id="core__get_current_time",
    description=(
        "Tells the current date and time, with the UTC offset, in a time zone given by its IANA "
        "name (UTC when none is given)."
    ),
    effect="read_only",
    redact=("iso8601", "timezone", "utc_offset"),
    timeout_s=5.0,
)
async def get_current_time(
    args: CurrentTimeArgs,
    _context: ToolContext,
) -> ToolOutput[CurrentTime]:
    """The current time, to the second."""
    now = datetime.now(_zone(args.timezone))
    written = now.isoformat(timespec="seconds")
    current = CurrentTime(
        iso8601=written,
        timezone=args.timezone,
        utc_offset=written[len("YYYY-MM-DDTHH:MM:SS") :],
    )
    return ToolOutput(
        markdown=f"It is {current.iso8601} ({now:%A}) in the time zone {current.timezone}.",
        structured=current,
    )


def _zone(name: str) -> tzinfo:
    # UTC also works without a time zone database.
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError) as error:
        raise ValueError("is not the IANA name of a time zone, for example Europe/Berlin") from error
