"""Times in requests; pure."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is out of range") from error


UtcMoment = Annotated[AwareDatetime, AfterValidator(_in_utc)]
"""In UTC: near the ends of the calendar a time may not exist there."""
