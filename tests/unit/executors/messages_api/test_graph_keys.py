from typing import Any

import pytest

from app.executors.messages_api.graph_keys import check_graph
from tests.unit.executors.claude_agent.an_executor import a_graph

HELPER = {"helper": {"description": "d", "prompt": "p"}}


@pytest.mark.parametrize(
    ("fields", "keys"),
    [({}, []), ({"native_tools": ("Bash",), "agents": HELPER}, ["native_tools", "agents"])],
)
def test_what_needs_the_cli_is_named(fields: dict[str, Any], keys: list[str]) -> None:
    assert [problem.key for problem in check_graph(a_graph(**fields))] == keys
