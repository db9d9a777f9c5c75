from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.tools.builtin.get_current_time import get_current_time
from tests.unit.tools.calling import call


async def visible_of(args: object) -> dict[str, Any]:
    result = await call(get_current_time, args)
    assert isinstance(result.visible, dict)
    assert not result.is_error
    assert str(result.visible["iso8601"]) in result.markdown
    return result.visible


async def test_the_time_is_utc_unless_asked_otherwise() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    visible = await visible_of({})
    moment = datetime.fromisoformat(visible["iso8601"])
    assert before <= moment <= datetime.now(UTC)
    assert (visible["timezone"], visible["utcOffset"]) == ("UTC", "+00:00")


async def test_a_zone_is_told_with_its_offset() -> None:
    visible = await visible_of({"timezone": "Asia/Kathmandu"})
    moment = datetime.fromisoformat(visible["iso8601"])
    assert moment.utcoffset() == timedelta(hours=5, minutes=45)
    assert abs(moment - datetime.now(UTC)) < timedelta(minutes=1)
    assert (visible["timezone"], visible["utcOffset"]) == ("Asia/Kathmandu", "+05:45")


@pytest.mark.parametrize(
    "timezone", ["Mars/Olympus", "", "America", "../../etc/passwd", "/etc/localtime", "a\0b", "x" * 65]
)
async def test_an_unknown_zone_is_refused_without_details(timezone: str) -> None:
    result = await call(get_current_time, {"timezone": timezone})
    assert (result.code, result.visible) == ("invalid_args", {"error": "invalid_args"})
    assert result.markdown.startswith("The arguments are not valid. timezone: ")
    assert "passwd" not in result.markdown
    assert "zoneinfo" not in result.markdown.lower()


async def test_an_argument_it_does_not_have_is_refused() -> None:
    result = await call(get_current_time, {"zone": "UTC"})
    assert result.code == "invalid_args"
    assert "zone: is not known" in result.markdown
