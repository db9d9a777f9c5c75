import json
from typing import Any

import pytest

from app.graphs.spec import GraphSpec
from app.requests import client_tools
from runtally.tools import tool as tools


def described(name: str = "pick", **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": "Pick.", "inputSchema": {}, **fields}


def large(name: str) -> dict[str, Any]:
    return described(name, inputSchema={"title": "x" * (client_tools.MOST_SCHEMA_BYTES // 2)})


@pytest.mark.parametrize(
    ("posted", "names"),
    [
        ([described(), described("b")], ["pick", "b"]),
        ([described(), described(description="another")], ["pick"]),
        ([described("a b"), described("x" * 65), described(""), described("b")], ["b"]),
        ([described(inputSchema=None), described(inputSchema=[]), described("b", extra=1)], []),
        ([None, 1, "x", [], {}], []),
        ([described(description="x" * 4_097), described("b")], ["b"]),
        ([large("a"), large("b"), described("c")], ["a", "c"]),
        ([described(f"t{n}") for n in range(100)], [f"t{n}" for n in range(client_tools.MOST_CLIENT_TOOLS)]),
    ],
)
def test_what_other_clients_describe_is_taken_as_far_as_it_is_valid(
    posted: list[Any], names: list[str]
) -> None:
    assert [tool.name for tool in client_tools.client_tools_within_limits(posted)] == names


def test_no_more_tools_are_read_than_anybody_uses() -> None:
    unusable = iter([None] * 100_000)
    usable = iter([described(f"t{n}") for n in range(100_000)])
    too_large = iter(
        [described(f"t{n}", inputSchema={"x": "y" * client_tools.MOST_SCHEMA_BYTES}) for n in range(1_000)]
    )

    found = [client_tools.client_tools_within_limits(each) for each in (unusable, usable, too_large)]

    assert [len(each) for each in found] == [0, client_tools.MOST_CLIENT_TOOLS, 0]
    left = [sum(1 for _ in each) for each in (unusable, usable, too_large)]
    assert left[0] == 100_000 - client_tools.MOST_DESCRIBED
    assert left[1] >= 100_000 - client_tools.MOST_CLIENT_TOOLS - 1
    assert left[2] > 990


@pytest.mark.parametrize(
    ("value", "longer"),
    [
        ({}, False),
        ({"a": ["x" * 9, 1, None]}, False),
        ("x" * 30, True),
        ([0] * 30, True),
        ({"a": {str(n): n for n in range(30)}}, True),
        ([[["x" * 10], "y" * 10], [1, 2, 3, 4]], True),
    ],
)
def test_a_long_value_is_recognized_before_it_is_written(value: Any, *, longer: bool) -> None:
    assert client_tools.is_longer(value, than=25) is longer
    assert len(json.dumps(value)) > 25 or not longer


@pytest.mark.parametrize("name", ["core__get_current_time", "client-x", "a" * 64, "-", "__"])
def test_no_client_tool_has_the_id_of_another_tool(name: str) -> None:
    tool_id = client_tools.client_tool_id(name)

    assert client_tools.is_client_tool(tool_id)
    assert client_tools.shown_name(tool_id) == name
    assert not tools._ID.fullmatch(tool_id)
    assert not client_tools.is_client_tool("core__get_current_time")
    assert client_tools.shown_name("core__get_current_time") == "core__get_current_time"


@pytest.mark.parametrize(
    ("rule", "taken"),
    [(True, {"pick_x", "pick", "x", "xx"}), (False, set()), ({"names": "pick_.*|x"}, {"pick_x", "x"})],
)
def test_a_graph_says_which_tools_it_takes(rule: Any, taken: set[str]) -> None:
    spec = GraphSpec(name="g", description="d", system_prompt="p", client_tools=rule)

    assert {name for name in ("pick_x", "pick", "x", "xx") if spec.takes_client_tool(name)} == taken


@pytest.mark.parametrize("rule", ["yes", 1, {"names": "("}, {"names": ""}, {}, {"names": "x", "other": 1}])
def test_a_rule_that_is_none_is_refused(rule: Any) -> None:
    with pytest.raises(ValueError, match="client_tools"):
        GraphSpec(name="g", description="d", system_prompt="p", client_tools=rule)
