from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.ids import AccountId, RunId, RunKey, new_uuid
from app.tools.builtin.get_current_time import get_current_time
from app.tools.policy import ToolPolicy
from app.tools.runner import ToolRunner
from runtally.tools.result import ToolResult
from runtally.tools.tool import ToolContext

CONTEXT = ToolContext(RunKey(AccountId(new_uuid()), RunId("r1")), "call-1", None)


async def call(args: object) -> ToolResult:
    tools = {get_current_time.id: get_current_time}
    return await ToolRunner(tools, ToolPolicy(frozenset(tools))).run(get_current_time.id, args, CONTEXT)


async def visible_of(args: object) -> dict[str, Any]:
    result = await call(args)
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
    "timezone",
    ["Mars/Olympus", "", "America", "../../etc/passwd", "/etc/localtime", "a\0b", "x" * 65],
)
async def test_an_unknown_zone_is_refused_without_details(timezone: str) -> None:
    result = await call({"timezone": timezone})
    assert (result.code, result.visible) == ("invalid_args", {"error": "invalid_args"})
    assert result.markdown.startswith("The arguments are not valid. timezone: ")
    assert "passwd" not in result.markdown
    assert "zoneinfo" not in result.markdown.lower()


async def test_an_argument_it_does_not_have_is_refused() -> None:
    result = await call({"zone": "UTC"})
    assert result.code == "invalid_args"
    assert "zone: Extra inputs are not permitted" in result.markdown
