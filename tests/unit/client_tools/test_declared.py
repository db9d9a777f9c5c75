from typing import Any

import pytest

from app.client_tools.declared import (
    MOST_CLIENT_TOOLS,
    MOST_SCHEMA_BYTES,
    client_tool_id,
    client_tools_within_limits,
    is_client_tool,
    shown_name,
)
from app.graphs.spec import GraphSpec
from app.tools import tool as tools


def described(name: str = "pick", **fields: Any) -> dict[str, Any]:
    return {"name": name, "description": "Pick.", "inputSchema": {}, **fields}


def large(name: str) -> dict[str, Any]:
    return described(name, inputSchema={"title": "x" * (MOST_SCHEMA_BYTES // 2)})


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
        ([described(f"t{n}") for n in range(100)], [f"t{n}" for n in range(MOST_CLIENT_TOOLS)]),
    ],
)
def test_what_other_clients_describe_is_taken_as_far_as_it_is_valid(
    posted: list[Any], names: list[str]
) -> None:
    assert [tool.name for tool in client_tools_within_limits(posted)] == names


@pytest.mark.parametrize("name", ["core__get_current_time", "client-x", "a" * 64, "-", "__"])
def test_no_client_tool_has_the_id_of_another_tool(name: str) -> None:
    tool_id = client_tool_id(name)

    assert is_client_tool(tool_id)
    assert shown_name(tool_id) == name
    assert not tools._ID.fullmatch(tool_id)
    assert not is_client_tool("core__get_current_time")
    assert shown_name("core__get_current_time") == "core__get_current_time"


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
